"""Host: the interface through which the fake CUDA runtime calls Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.types import Dim3


class CopyAccess(IntEnum):
    """enum vcudart_access: what a copy does with device memory."""

    READ = 0
    WRITE = 1
    TO_HOST = 2
    """A read of a copy to the host, which is done at once."""


@dataclass(frozen=True)
class FunctionAttributes:
    registers: int
    static_shared_bytes: int
    max_threads: int
    max_dynamic_shared_bytes: int


class Host(Protocol):
    """What the calls of the CUDA runtime mean. Ints that are returned alone are cudaError_t."""

    spec: GpuSpec

    def launch(
        self,
        module: int,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        dynamic: int,
        args: int,
        cooperative: bool,
    ) -> int:
        """`args` is the address of an array of the addresses of the kernel's arguments.
        cooperative: all blocks run at once and may wait for each other."""

    def allocate(self, nbytes: int) -> tuple[int, int]:
        """Error and address."""

    def release(self, address: int) -> int: ...

    def touch(self, address: int, nbytes: int, access: CopyAccess) -> int:
        """Whether a copy may read or write there; a write is coverage."""

    def symbol(self, module: int, name: str) -> tuple[int, int, int]:
        """Error, address and size of a __device__ or __constant__ variable."""

    def function(self, module: int, kernel: str) -> tuple[int, FunctionAttributes | None]: ...

    def set_attribute(self, module: int, kernel: str, attribute: int, value: int) -> int: ...

    def occupancy(self, module: int, kernel: str, threads: int, dynamic: int) -> tuple[int, int]:
        """Error and blocks per SM."""

    def managed(self, nbytes: int) -> tuple[int, int]:
        """Error and address of memory that host code may touch too."""

    def open(self, on: bool) -> int:
        """The runtime is about to touch device memory itself, or has done so."""

    def now(self) -> int:
        """Nanoseconds that the device's work has taken until now."""

    def capture(self, on: bool) -> tuple[int, int]:
        """Begins to note what is asked for; at the end error and number of the graph."""

    def note(self, to: int, source: int, nbytes: int, kind: int, value: int) -> int:
        """A copy, or from 0 a fill, is asked for during a capture."""

    def replay(self, graph: int) -> int:
        """Does what was noted."""

    def lend(self, address: int, nbytes: int) -> int:
        """Host memory that kernels may touch until its release."""

    def held(self) -> int:
        """Bytes of device memory that are taken."""

    def forget(self) -> int:
        """Releases all that was allocated."""

    def limit_heap(self, nbytes: int) -> int:
        """How much malloc of kernels may hand out; too late once a kernel has called it."""

    def refuse(self, what: str) -> int:
        """Notes that the host code asked for something that the virtual GPU does not support."""

    def read(self, fat_binary: int) -> int:
        """The number of the module in the fat binary at this address; -1 where it is refused."""

    def answer(self, kind: str, call: str, words: Sequence[int]) -> int:
        """A call of one of NVIDIA's libraries: "gemm", "vector" or "random"; its name and words."""

    def broke(self, error: BaseException) -> int:
        """Notes an exception of one of the others; it must not cross C."""
