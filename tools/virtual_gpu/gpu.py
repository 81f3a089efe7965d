"""VirtualGpu: kernel files that nvcc built, run on host memory in this process."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.errors import BadInput
from astra_chat.tools.virtual_gpu.engines import Engines
from astra_chat.tools.virtual_gpu.limits import MAX_THREADS, blocks_per_sm, launch_error
from astra_chat.tools.virtual_gpu.memory import Memory
from astra_chat.tools.virtual_gpu.ptx import Kernel, Module, parse
from astra_chat.tools.virtual_gpu.runtime import FunctionAttributes, Runtime, missing_call
from astra_chat.tools.virtual_gpu.specs import GpuSpec
from astra_chat.tools.virtual_gpu.types import (
    Dim3,
    Engine,
    Fault,
    Launch,
    LaunchReport,
    PtxUnsupported,
)

SAMPLE_INSTRUCTIONS = 100_000_000
"""Of single threads: about half a second."""
ALIGNMENT_BYTES = 256
"""What cudaMalloc gives."""
UNWRITTEN = 0xA5
"""Fresh device memory holds no zeros."""

INVALID_VALUE, MEMORY_ALLOCATION, INVALID_SYMBOL, UNKNOWN_FUNCTION = 1, 2, 13, 400
LAUNCH_FAILURE, NOT_SUPPORTED = 719, 801
MAX_DYNAMIC_SHARED, SHARED_CARVEOUT = 8, 9
"""Of enum cudaFuncAttribute."""

_module_numbers: dict[int, int] = {}
"""By handle of the loaded library: the C side knows a library's kernels by this number."""
_next_number = itertools.count()


class CallUnsupported(PtxUnsupported):
    """The host code asks the CUDA runtime for something that the virtual GPU lacks."""

    def __init__(self, what: str, call: str = "") -> None:
        super().__init__(what, kernel="host code", opcode=call or what, line=0)
        self.args = (f"host code: {what} is not supported on the virtual GPU",)


@dataclass
class _Loaded:
    """One kernel file: its PTX, what ptxas said of it, and its device variables."""

    module: Module
    resources: Mapping[str, tuple[int, int]]
    variables: dict[str, NDArray[np.uint8]]
    dynamic_limits: dict[str, int] = field(default_factory=dict)
    """What cudaFuncSetAttribute allowed."""

    @property
    def addresses(self) -> dict[str, int]:
        return {name: int(array.ctypes.data) for name, array in self.variables.items()}


class VirtualGpu:
    """One virtual GPU. The newest of a process takes the calls of all libraries.

    Device memory is host memory at its own address. Host code that touches it outside a launch or a
    copy works here and would crash on a GPU: that is not found yet.
    """

    def __init__(
        self,
        spec: GpuSpec,
        *,
        sample_instructions: int | None = SAMPLE_INSTRUCTIONS,
        counters: bool = True,
        engine: Engine = "auto",
        compiled: Mapping[str, Path] | None = None,
    ) -> None:
        """A launch worth more than `sample_instructions` (of single threads) runs a sample of its
        blocks; None runs all. The C engine, which `auto` takes for large launches, affords more.

        `compiled`: libraries for it by kernel, where this process may not start a compiler.
        """
        self.spec = spec
        self.memory = Memory()
        self.memory.track_writes(True)
        self._engines = Engines(engine, compiled, sample_instructions)
        self._counters = counters
        self._loaded: dict[int, _Loaded] = {}
        self._registered: dict[int, NDArray[Any]] = {}
        self._reports: list[LaunchReport] = []
        self._fault: BaseException | None = None
        self._runtime: Runtime | None = None
        self._host: CallsOnGpu = CallsOnGpu(self)

    def load(
        self, library: Path, ptx: Path, resources: Mapping[str, tuple[int, int]]
    ) -> ctypes.CDLL:
        """Load a kernel file's host code and bind its kernels to the PTX of the same nvcc call.

        `resources` gives each kernel's registers and static shared bytes. Raises BadInput for a
        library that is not linked with the fake runtime, CallUnsupported if it calls what that
        lacks, PtxUnsupported never: a kernel is translated when it is launched.
        """
        module = parse(ptx.read_text())
        if missing := module.kernels.keys() - resources.keys():
            raise BadInput(f"no registers and shared memory given for {', '.join(sorted(missing))}")
        try:
            loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            if call := missing_call(error):
                raise CallUnsupported(f"the CUDA call {call}", call) from None
            raise BadInput(f"{library} does not load: {error}") from None
        number = _module_numbers.setdefault(loaded._handle, next(_next_number))
        variables = self._place_variables(module)
        self._loaded[number] = _Loaded(module, resources, variables)
        try:
            self._runtime = self._runtime or Runtime(loaded, self._host)
        except AttributeError:
            raise BadInput(f"{library} is not linked with libvcudart: -cudart none") from None
        self._runtime.attach()
        self._runtime.adopt(number)
        atexit.register(self._runtime.detach)
        self.reset()
        return loaded

    def register(self, array: NDArray[Any], name: str) -> int:
        """Make a C-contiguous array device memory at its exact size; returns its address."""
        address = self.memory.add(array, name)
        self._registered[address] = array
        return address

    def unregister(self, address: int) -> None:
        self.memory.remove(address)
        del self._registered[address]

    def written(self, address: int) -> NDArray[np.bool_]:
        """For each byte of a registered array: stored to since the last reset?"""
        buffer = self.memory.find(address)
        if buffer is None or buffer.written is None:
            raise KeyError(f"no registered array at {address:#x}")
        return buffer.written

    def reports(self) -> list[LaunchReport]:
        """Of every launch since the last reset that ended well."""
        return list(self._reports)

    @property
    def fault(self) -> Fault | PtxUnsupported | None:
        """The first since the last reset. An exception of any other kind is raised: it is ours."""
        if self._fault is None or isinstance(self._fault, Fault | PtxUnsupported):
            return self._fault
        raise self._fault

    def reset(self) -> None:
        """As a new process finds the device: no error, no reports, coverage from nothing.

        Memory keeps its content, variables of the kernel file too.
        """
        self._reports.clear()
        self._fault = None
        self.memory.track_writes(True)
        if self._runtime is not None:
            self._runtime.reset()

    @property
    def notes(self) -> Mapping[str, str]:
        """By kernel, why it ran on the NumPy engine although the C engine was asked for."""
        return self._engines.notes

    def use(self, host: CallsOnGpu) -> None:
        """Answer the calls of libraries that are loaded from now on in another way."""
        self._host = host

    def loaded(self, module: int) -> _Loaded:
        return self._loaded[module]

    def _place_variables(self, module: Module) -> dict[str, NDArray[np.uint8]]:
        """Device memory for the module's variables, with their initial values."""
        arrays = {name: device_array(v.size) for name, v in module.globals.items()}
        for name, variable in module.globals.items():
            array = arrays[name]
            array[:] = np.frombuffer(variable.initial or bytes(variable.size), np.uint8)
            for relocation in variable.relocations:
                if (target := arrays.get(relocation.symbol)) is not None:
                    value = int(target.ctypes.data) + relocation.addend
                    at = slice(relocation.at, relocation.at + 8)
                    array[at] = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
            self.memory.add(array, f"variable {name}")
        return arrays

    def _note(self, error: BaseException) -> int:
        self._fault = self._fault or error
        match error:
            case Fault():
                return error.cuda_error
            case PtxUnsupported():
                return NOT_SUPPORTED
            case _:
                return LAUNCH_FAILURE

    def _run(self, loaded: _Loaded, launch: Launch) -> None:
        report = self._engines.run(
            loaded.module, launch, self.memory, loaded.addresses, counters=self._counters
        )
        self._reports.append(report)


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
        self._count = 0

    def launch(
        self, module: int, kernel: str, grid: Dim3, block: Dim3, dynamic: int, args: int
    ) -> int:
        loaded, entry = self._find(module, kernel)
        if loaded is None or entry is None:
            return UNKNOWN_FUNCTION
        function = self._attributes(loaded, entry)
        error = launch_error(
            self.spec, grid, block, registers=function.registers,
            static_shared_bytes=function.static_shared_bytes, dynamic_shared_bytes=dynamic,
            max_dynamic_shared_bytes=function.max_dynamic_shared_bytes,
            max_threads=entry.max_threads or MAX_THREADS,
        )  # fmt: skip
        if not error:
            packed = pack_params(entry, args)
            self._gpu._run(loaded, Launch(kernel, grid, block, dynamic, packed))
        return error

    def allocate(self, nbytes: int) -> tuple[int, int]:
        held = sum(array.nbytes for array in self._allocated.values())
        if held + nbytes > self.spec.memory_bytes:
            return MEMORY_ALLOCATION, 0
        try:
            array = device_array(nbytes)
        except MemoryError:
            return MEMORY_ALLOCATION, 0
        address = self._memory.add(array, f"cudaMalloc {len(self._allocated)}")
        self._allocated[address] = array
        return 0, address

    def release(self, address: int) -> int:
        if self._allocated.pop(address, None) is None:
            return INVALID_VALUE
        self._memory.remove(address)
        return 0

    def touch(self, address: int, nbytes: int, write: bool) -> int:
        buffer = self._memory.find(address)
        if buffer is None or address + nbytes > buffer.address + buffer.nbytes:
            return INVALID_VALUE
        if write and buffer.written is not None:
            start = address - buffer.address
            buffer.written[start : start + nbytes] = True
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
        function = self._attributes(loaded, entry)
        if dynamic > function.max_dynamic_shared_bytes:
            return 0, 0
        shared = function.static_shared_bytes + dynamic
        return 0, blocks_per_sm(
            self.spec, registers=function.registers, shared_bytes=shared, threads=threads
        )

    def managed(self, nbytes: int) -> tuple[int, int]:
        return self.allocate(nbytes)

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

    def refuse(self, what: str) -> int:
        return self._gpu._note(CallUnsupported(what))

    def broke(self, error: BaseException) -> int:
        return self._gpu._note(error)

    def _find(self, module: int, kernel: str) -> tuple[_Loaded | None, Kernel | None]:
        loaded = self._gpu._loaded.get(module)
        return loaded, loaded.module.kernels.get(kernel) if loaded else None

    def _attributes(self, loaded: _Loaded, kernel: Kernel) -> FunctionAttributes:
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
            t for t in sizes
            if blocks_per_sm(self.spec, registers=registers, shared_bytes=0, threads=t)
        )  # fmt: skip


def pack_params(kernel: Kernel, args: int) -> bytes:
    """The arguments behind `args`, an array of their addresses, as the PTX entry lays them out."""
    packed = bytearray(kernel.param_bytes)
    pointers = ctypes.cast(args, ctypes.POINTER(ctypes.c_void_p)) if kernel.params else None
    for index, param in enumerate(kernel.params):
        assert pointers is not None
        value = ctypes.string_at(pointers[index] or 0, param.size)
        packed[param.offset : param.offset + param.size] = value
    return bytes(packed)
