"""Arguments on the virtual GPU, protected from host code as device memory is on a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from astra_chat.tools.run.buffer_layout import Bytes
from astra_chat.tools.virtual_gpu.gpu import VirtualGpu
from astra_chat.tools.virtual_gpu.memory.page_guard import GuardedMemory
from astra_chat.tools.virtual_gpu.runtime.calls import CallsOnGpu

ALIGNMENT_BYTES = 256


class ClosedMemory(CallsOnGpu):
    """The calls of the CUDA runtime, which open the arguments while the GPU works.

    Host code that reads or writes there kills the process, as it would on a GPU, and says so.
    """

    def __init__(self, gpu: VirtualGpu) -> None:
        """To be given to `gpu.use` before a library is loaded."""
        super().__init__(gpu)
        self._guard: GuardedMemory | None = None
        self._copies, self._copied_bytes = 0, 0

    def guard(self, library: ctypes.CDLL) -> None:
        """`library` is one that this GPU loaded. From now on arguments can be made."""
        self._guard = GuardedMemory(library)
        self._guard.open(True)  # to us; `closed` says when it is not

    def argument(self, content: Bytes, shift: int, name: str) -> Bytes:
        """The content `shift` bytes past an address that is a multiple of 256, cudaMalloc's."""
        assert self._guard is not None
        room = self._guard.allocate(max(1, len(content) + shift), name)
        array: Bytes = room[shift : shift + len(content)]
        array[:] = content
        return array

    def drop(self, array: Bytes, shift: int) -> None:
        """Its memory is given back once nobody holds the array."""
        assert self._guard is not None
        self._guard.forget(int(array.ctypes.data) - shift)

    @contextmanager
    def closed(self) -> Iterator[None]:
        """While the launcher's code runs."""
        assert self._guard is not None
        self._copies, self._copied_bytes = 0, 0
        self._guard.open(False)
        try:
            yield
        finally:
            self._guard.open(True)

    def touch(self, address: int, nbytes: int, write: bool) -> int:
        self._copies += int(write)
        self._copied_bytes += nbytes
        return super().touch(address, nbytes, write)

    @property
    def copies_us(self) -> float:
        """What the copies and fillings that the launcher asked for take at least: each its launch,
        and its bytes at the memory's speed. Kernels are estimated elsewhere."""
        floor_us = self._copies * self.spec.launch_floor_us
        return floor_us + 1e6 * self._copied_bytes / self.spec.dram_bytes_per_s

    def launch(self, *arguments: Any) -> int:
        self.open(True)
        try:
            return super().launch(*arguments)
        finally:
            self.open(False)

    def open(self, on: bool) -> int:
        if self._guard is not None:
            self._guard.open(on)
        return 0
