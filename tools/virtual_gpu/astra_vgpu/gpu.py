"""VirtualGpu: kernel files that nvcc built, run on host memory in this process."""

from __future__ import annotations

import atexit
import ctypes
import itertools
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.launch.engines import Engines
from astra_vgpu.launch.sampled_launches import Parts
from astra_vgpu.lowering.function_pointers import address_of
from astra_vgpu.memory import early_accesses
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.uninitialized_reads import warnings_of
from astra_vgpu.numpy_engine import INSTRUCTION_BUDGET
from astra_vgpu.ptx.parser import Module, parse
from astra_vgpu.ptx.some_kernels import with_kernels
from astra_vgpu.runtime.calls import (
    CallsOnGpu,
    CallUnsupported,
    Loaded,
    device_array,
)
from astra_vgpu.runtime.cudart_binding import Runtime, missing_call
from astra_vgpu.sass.counters import MachineCode
from astra_vgpu.sass.disassembly import SUFFIX
from astra_vgpu.types import (
    MEETING_BYTES,
    NAN_BITS,
    Engine,
    Fault,
    Launch,
    LaunchReport,
    PtxUnsupported,
)

SAMPLE_INSTRUCTIONS = 100_000_000
"""Thread instructions, about half a second's, above which a sample of a launch's blocks runs."""
LAUNCH_FAILURE, NOT_SUPPORTED = 719, 801
ARRIVED = np.uint32(1 << 31)
"""The bit of the second word of a grid's barrier that turns with each sync (cooperative_groups)."""

_module_numbers: dict[int, int] = {}
"""Number of each module, by handle of its loaded library: the C side knows its kernels by it."""
_next_number = itertools.count()


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
        prints: bool = False,
        adds_up: bool = False,
        endless_instructions: int = INSTRUCTION_BUDGET,
    ) -> None:
        """A launch worth more than `sample_instructions` (of single threads) runs a sample of its
        blocks; None runs all. The C engine, which `auto` takes for large launches, affords more.

        `compiled`: libraries for it by kernel, where this process may not start a compiler.
        prints: what kernels print is in the reports; else it is dropped. adds_up: `auto` takes the
        C engine also for a kernel of many small launches. endless_instructions: of single threads,
        after which a loop on NumPy is a fault.
        """
        self.spec = spec
        self.memory = Memory()
        self.memory.track_writes(True)
        self._engines = Engines(
            engine,
            compiled,
            sample_instructions,
            prints=prints,
            adds_up=adds_up,
            endless_instructions=endless_instructions,
        )
        self._counters = counters
        self.left_there = NAN_BITS
        """What shared and local memory hold at the launches to come: Launch.left_there."""
        self._loaded: dict[int, Loaded] = {}
        self._registered: dict[int, NDArray[Any]] = {}
        self._reports: list[LaunchReport] = []
        self.parts = Parts()
        self._fault: BaseException | None = None
        self._held: set[str] = set()
        """Buffers of the host code that were there at the last reset."""
        self._meeting: NDArray[np.uint8] | None = None
        self._runtime: Runtime | None = None
        self._host: CallsOnGpu = CallsOnGpu(self)

    def load_kernels(
        self,
        ptx: Path,
        resources: Mapping[str, tuple[int, int]],
        kernels: Collection[str] | None = None,
    ) -> Loaded:
        """Load a kernel file without host code: its kernels, or those of these names, and its
        variables' initial values.

        `resources` gives each kernel's registers and static shared bytes. Where
        runtime/compile.py left the text of the machine code beside the PTX, counters come from
        there. Raises BadInput and PtxSyntaxError, PtxUnsupported never: a kernel is translated when
        it is launched.
        """
        text = ptx.read_text()
        module = parse(text if kernels is None else with_kernels(text, kernels))
        if missing := module.kernels.keys() - resources.keys():
            raise BadInput(f"no registers and shared memory given for {', '.join(sorted(missing))}")
        variables = self._place_variables(module)
        machine = MachineCode(ptx.with_suffix(SUFFIX))
        return Loaded(module, resources, variables, machine=machine)

    def load(
        self, library: Path, ptx: Path, resources: Mapping[str, tuple[int, int]]
    ) -> ctypes.CDLL:
        """Load a kernel file's host code and bind its kernels to the PTX of the same nvcc call.

        `resources` as for load_kernels. Raises BadInput also for a library that is not linked with
        the fake runtime, and CallUnsupported if it calls what that does not have.
        """
        kernels = self.load_kernels(ptx, resources)
        try:
            loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            if call := missing_call(error):
                raise CallUnsupported(f"the CUDA call {call}", call) from None
            raise BadInput(f"{library} does not load: {error}") from None
        number = _module_numbers.setdefault(loaded._handle, next(_next_number))
        self._loaded[number] = kernels
        try:
            self._runtime = self._runtime or Runtime(loaded, self._host)
        except AttributeError:
            raise BadInput(f"{library} is not linked with libvcudart: -cudart none") from None
        self._runtime.attach()
        self._runtime.adopt(number)
        atexit.register(self._runtime.detach)
        self.reset()
        return loaded

    def attach(self, runtime: ctypes.CDLL) -> None:
        """Take the calls of all libraries that are linked with this fake runtime; it asks the host
        (use) for the kernels."""
        self._runtime = Runtime(runtime, self._host)
        atexit.register(self._runtime.detach)
        self.reset()

    def adopt(self, kernels: Loaded) -> int:
        """The number of a module for the fake runtime."""
        number = next(_next_number)
        self._loaded[number] = kernels
        return number

    def afford(self, sample_instructions: int | None, seed: int = 0) -> None:
        """Change what a launch may cost before a sample of its blocks runs; None: all run. `seed`
        says which blocks a sample has."""
        self._engines.afford(sample_instructions, seed)

    def register(
        self, array: NDArray[Any], name: str, *, uninitialized: bool = False, weight: bool = False
    ) -> int:
        """Make a C-contiguous array device memory at its exact size; returns its address.

        uninitialized: a kernel that reads it before it wrote to it is warned of. weight: it holds
        the same in every call, so a kernel may read it before it waits for the work ahead of it.
        """
        early = early_accesses.READS if weight else early_accesses.NOTHING
        address = self.memory.add(array, name, uninitialized=uninitialized, early=early)
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
        """Reports of every launch since the last reset that ended well."""
        return list(self._reports)

    def warnings(self) -> dict[str, str]:
        """What is wrong but not a fault, since the last reset, by place: uninitialized
        reads, and buffers that the host code did not free."""
        warnings = warnings_of(self._reports)
        unfreed = self._host.unfreed
        if leaked := [unfreed[name] for name in unfreed if name not in self._held]:
            what = "a buffer was" if len(leaked) == 1 else f"{len(leaked)} buffers were"
            warnings["leak"] = f"leak: {what} allocated and not freed, {sum(leaked)} bytes"
        return warnings

    @property
    def fault(self) -> Fault | PtxUnsupported | None:
        """The first fault since the last reset. An exception of another kind is raised: it is
        ours."""
        if self._fault is None or isinstance(self._fault, Fault | PtxUnsupported):
            return self._fault
        raise self._fault

    def reset(self) -> None:
        """Resets the device to what a new process finds: no error, no reports, coverage from
        nothing.

        Memory keeps its content, variables of the kernel file too.
        """
        self._reports.clear()
        self.parts = Parts()
        self._fault = None
        self._held = set(self._host.unfreed)
        self.memory.track_writes(True)
        if self._runtime is not None:
            self._runtime.reset()

    @property
    def notes(self) -> Mapping[str, str]:
        """Why a kernel ran on the NumPy engine although the C engine was asked for, by kernel."""
        return self._engines.notes

    def use(self, host: CallsOnGpu) -> None:
        """Answer the calls of libraries that are loaded from now on in another way."""
        self._host = host

    def loaded(self, module: int) -> Loaded:
        return self._loaded[module]

    def meeting_place(self) -> int:
        """Where the blocks of a cooperative launch meet: the address of words that are 0."""
        if self._meeting is None:
            self._meeting = device_array(MEETING_BYTES)
            everything = early_accesses.EVERYTHING
            self.memory.add(self._meeting, "the grid's barrier", early=everything)
        self._meeting[:] = 0
        return int(self._meeting.ctypes.data)

    def _see_meeting_place(self, launch: Launch) -> None:
        """All blocks have met: what is left is the bit that turns with each grid.sync()."""
        assert self._meeting is not None
        first, second = self._meeting.view(np.uint32)[:2]
        if first or second & ~ARRIVED:
            what = "the driver's memory for grid.sync() holds something else after the launch"
            raise Fault("state", what, cuda_error=LAUNCH_FAILURE, where=f"kernel {launch.kernel}")

    def _place_variables(self, module: Module) -> dict[str, NDArray[np.uint8]]:
        """Device memory for the module's variables, with their initial values."""
        arrays = {name: device_array(v.size) for name, v in module.globals.items()}
        for name, variable in module.globals.items():
            array = arrays[name]
            array[:] = np.frombuffer(variable.initial or bytes(variable.size), np.uint8)
            for relocation in variable.relocations:
                value = address_of(module, relocation.symbol)
                if (target := arrays.get(relocation.symbol)) is not None:
                    value = int(target.ctypes.data) + relocation.addend
                if value is not None:
                    at = slice(relocation.at, relocation.at + 8)
                    array[at] = np.frombuffer(value.to_bytes(8, "little"), np.uint8)
            self.memory.add(array, f"variable {name}", early=early_accesses.READS)
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

    def _run(self, loaded: Loaded, launch: Launch) -> None:
        report = self._engines.run(
            loaded.module,
            launch,
            self.memory,
            loaded.addresses,
            counters=self._counters,
            parts=self.parts,
            machine=loaded.machine,
        )
        if launch.meeting_place:
            self._see_meeting_place(launch)
        if whole := self.parts.completed:
            self._reports = [whole.get(id(r), r) for r in self._reports]
        self._reports.append(report)
