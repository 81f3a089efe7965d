"""CUDA runtime calls on a VirtualGpu: cudaMalloc, cudaMemcpy, launches, attributes."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.model.occupancy import MAX_THREADS, blocks_per_sm, launch_error
from astra_vgpu.ptx.parser import Kernel, Module
from astra_vgpu.runtime.host import CopyAccess, FunctionAttributes
from astra_vgpu.sass.counters import MachineCode
from astra_vgpu.types import Dim3, Launch, PtxUnsupported

if TYPE_CHECKING:
    from astra_vgpu.gpu import VirtualGpu

ALIGNMENT_BYTES = 256
"""What cudaMalloc gives."""
UNWRITTEN = 0xA5
"""Fresh device memory holds no zeros."""

INVALID_VALUE, MEMORY_ALLOCATION, INVALID_SYMBOL, UNKNOWN_FUNCTION = 1, 2, 13, 400
ALREADY_REGISTERED = 712
MAX_DYNAMIC_SHARED, SHARED_CARVEOUT = 8, 9
"""Values of enum cudaFuncAttribute."""


class CallUnsupported(PtxUnsupported):
    """The host code asks the CUDA runtime for something that the virtual GPU does not support."""

    def __init__(self, what: str, call: str = "") -> None:
        super().__init__(what, kernel="host code", opcode=call or what, line=0)
        self.args = (f"host code: {what} is not supported on the virtual GPU",)


@dataclass
class Loaded:
    """One kernel file: its PTX, ptxas' report, and its device variables."""

    module: Module
    resources: Mapping[str, tuple[int, int]]
    variables: dict[str, NDArray[np.uint8]]
    dynamic_limits: dict[str, int] = field(default_factory=dict)
    """What cudaFuncSetAttribute allowed."""
    machine: MachineCode | None = None
    """What is known of its machine code."""

    @property
    def addresses(self) -> dict[str, int]:
        return {name: int(array.ctypes.data) for name, array in self.variables.items()}


def device_array(nbytes: int) -> NDArray[np.uint8]:
    """Fresh device memory: uint8 [nbytes], aligned as cudaMalloc aligns, not zero."""
    room = np.full(nbytes + ALIGNMENT_BYTES, UNWRITTEN, np.uint8)
    offset = -int(room.ctypes.data) % ALIGNMENT_BYTES
    return room[offset : offset + nbytes]


class CallsOnGpu:
    """The calls of the CUDA runtime on one VirtualGpu (runtime.Host)."""

    def __init__(self, gpu: VirtualGpu) -> None:
        self._gpu = gpu
        self.spec = gpu.spec
        self._memory = gpu.memory
        self._allocated: dict[int, NDArray[np.uint8]] = {}
        self._held = 0
        """Bytes of these."""
        self._lent: set[int] = set()
        self._count = 0

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
        loaded, entry = self._find(module, kernel)
        if loaded is None or entry is None:
            return UNKNOWN_FUNCTION
        packed = pack_params(entry, args)
        return self.launch_packed(loaded, kernel, grid, block, dynamic, packed, cooperative)

    def launch_packed(
        self,
        loaded: Loaded,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        dynamic: int,
        params: bytes,
        cooperative: bool,
        programmatic: bool = False,
    ) -> int:
        """A launch whose `params` lie as the PTX entry declares them; its cudaError_t.

        Raises Fault and PtxUnsupported.
        """
        entry = loaded.module.kernels[kernel]
        function = self._attributes(loaded, entry)
        at_once = self._occupancy(function, block.count, dynamic) if cooperative else None
        error = launch_error(
            self.spec,
            grid,
            block,
            registers=function.registers,
            static_shared_bytes=function.static_shared_bytes,
            dynamic_shared_bytes=dynamic,
            max_dynamic_shared_bytes=function.max_dynamic_shared_bytes,
            max_threads=entry.max_threads or MAX_THREADS,
            at_once=at_once,
        )
        if not error:
            place = self._gpu.meeting_place() if cooperative else 0
            left = self._gpu.left_there
            made = Launch(kernel, grid, block, dynamic, params, place, programmatic, left)
            self._gpu._run(loaded, made)
        return error

    def allocate(self, nbytes: int) -> tuple[int, int]:
        if self._held + nbytes > self.spec.memory_bytes:
            return MEMORY_ALLOCATION, 0
        try:
            array = device_array(nbytes)
        except MemoryError:
            return MEMORY_ALLOCATION, 0
        return 0, self._own(array)

    def _own(self, array: NDArray[np.uint8]) -> int:
        """The address of memory that the program allocated just now."""
        self._count += 1
        address = self._memory.add(array, f"cudaMalloc number {self._count}", uninitialized=True)
        self._allocated[address] = array
        self._held += array.nbytes
        return address

    def _disown(self, address: int) -> NDArray[np.uint8] | None:
        array = self._allocated.pop(address, None)
        self._held -= 0 if array is None else array.nbytes
        return array

    def release(self, address: int) -> int:
        if self._disown(address) is None and address not in self._lent:
            return INVALID_VALUE
        self._lent.discard(address)
        self._memory.remove(address, freed=True)
        return 0

    def touch(self, address: int, nbytes: int, access: CopyAccess) -> int:
        buffer = self._memory.find(address)
        if buffer is None or address + nbytes > buffer.address + buffer.nbytes:
            return INVALID_VALUE
        if buffer.allocated is not None:  # what kernels allocate is not for copies
            return INVALID_VALUE
        if access == CopyAccess.WRITE:
            self._gpu.parts.touch()
            buffer.mark_span(address - buffer.address, nbytes)
        return 0

    def symbol(self, module: int, name: str) -> tuple[int, int, int]:
        loaded = self._gpu._loaded.get(module)
        array = loaded.variables.get(name) if loaded else None
        if array is None:
            return INVALID_SYMBOL, 0, 0
        return 0, int(array.ctypes.data), array.nbytes

    def function(self, module: int, kernel: str) -> tuple[int, FunctionAttributes | None]:
        loaded, entry = self._find(module, kernel)
        if loaded is None or entry is None:
            return UNKNOWN_FUNCTION, None
        return 0, self._attributes(loaded, entry)

    def set_attribute(self, module: int, kernel: str, attribute: int, value: int) -> int:
        loaded, entry = self._find(module, kernel)
        if loaded is None or entry is None:
            return UNKNOWN_FUNCTION
        if attribute == SHARED_CARVEOUT:
            return 0 if -1 <= value <= 100 else INVALID_VALUE
        if attribute != MAX_DYNAMIC_SHARED:
            return self.refuse(f"attribute {attribute} of cudaFuncSetAttribute")
        static = loaded.resources[kernel][1]
        if not 0 <= value <= self.spec.shared_per_block_optin - static:
            return INVALID_VALUE
        loaded.dynamic_limits[kernel] = value
        return 0

    def occupancy(self, module: int, kernel: str, threads: int, dynamic: int) -> tuple[int, int]:
        loaded, entry = self._find(module, kernel)
        if loaded is None or entry is None:
            return UNKNOWN_FUNCTION, 0
        if threads < 1:
            return INVALID_VALUE, 0
        return 0, self._occupancy(self._attributes(loaded, entry), threads, dynamic)

    def _occupancy(self, function: FunctionAttributes, threads: int, dynamic: int) -> int:
        """Blocks of a multiprocessor at once. Here a driver forgives a limit on dynamic shared
        memory below what a kernel has without one; a launch beyond it fails all the same."""
        usual = self.spec.shared_per_block - function.static_shared_bytes
        if dynamic > max(function.max_dynamic_shared_bytes, usual):
            return 0
        shared = function.static_shared_bytes + dynamic
        return blocks_per_sm(
            self.spec, registers=function.registers, shared_bytes=shared, threads=threads
        )

    def managed(self, nbytes: int) -> tuple[int, int]:
        """Host code writes there too, unseen."""
        error, address = self.allocate(nbytes)
        if (buffer := self._memory.find(address)) is not None:
            buffer.starts_uninitialized = False
        return error, address

    def lend(self, address: int, nbytes: int) -> int:
        bytes_there = (ctypes.c_uint8 * nbytes).from_address(address)
        try:
            self._memory.add(np.ctypeslib.as_array(bytes_there), "cudaHostRegister")
        except ValueError:
            return ALREADY_REGISTERED
        self._lent.add(address)
        return 0

    @property
    def unfreed(self) -> dict[str, int]:
        """Bytes of each buffer that was not freed, by name."""
        return {
            buffer.name: buffer.nbytes
            for address in self._allocated
            if (buffer := self._memory.find(address)) is not None
        }

    def held(self) -> int:
        return self._held

    def forget(self) -> int:
        for address in [*self._allocated, *self._lent]:
            self.release(address)
        self._memory.drop_heap()
        return 0

    def open(self, on: bool) -> int:
        return 0

    def now(self) -> int:
        return time.monotonic_ns()

    def capture(self, on: bool) -> tuple[int, int]:
        return self.refuse("capturing a stream (graphs)"), 0

    def note(self, to: int, source: int, nbytes: int, kind: int, value: int) -> int:
        return self.refuse("capturing a copy")

    def replay(self, graph: int) -> int:
        return self.refuse("launching a graph")

    def limit_heap(self, nbytes: int) -> int:
        return 0 if self._memory.limit_heap(nbytes) else INVALID_VALUE

    def refuse(self, what: str) -> int:
        return self._gpu._note(CallUnsupported(what))

    def read(self, fat_binary: int) -> int:
        """A judge takes the kernels of the file that it built, no others."""
        return -1

    def answer(self, kind: str, call: str, words: Sequence[int]) -> int:
        return self.refuse(call)

    def broke(self, error: BaseException) -> int:
        return self._gpu._note(error)

    def _find(self, module: int, kernel: str) -> tuple[Loaded | None, Kernel | None]:
        loaded = self._gpu._loaded.get(module)
        return loaded, loaded.module.kernels.get(kernel) if loaded else None

    def _attributes(self, loaded: Loaded, kernel: Kernel) -> FunctionAttributes:
        registers, static = loaded.resources[kernel.name]
        untouched = max(self.spec.shared_per_block - static, 0)
        return FunctionAttributes(
            registers=registers,
            static_shared_bytes=static,
            max_threads=kernel.max_threads or self._largest_block(registers),
            max_dynamic_shared_bytes=loaded.dynamic_limits.get(kernel.name, untouched),
        )

    def _largest_block(self, registers: int) -> int:
        sizes = range(MAX_THREADS, 0, -32)
        return next(
            t
            for t in sizes
            if blocks_per_sm(self.spec, registers=registers, shared_bytes=0, threads=t)
        )


def pack_params(kernel: Kernel, args: int) -> bytes:
    """The arguments behind `args`, an array of their addresses, as the PTX entry lays them out."""
    packed = bytearray(kernel.param_bytes)
    pointers = ctypes.cast(args, ctypes.POINTER(ctypes.c_void_p)) if kernel.params else None
    for index, param in enumerate(kernel.params):
        assert pointers is not None
        value = ctypes.string_at(pointers[index] or 0, param.size)
        packed[param.offset : param.offset + param.size] = value
    return bytes(packed)
