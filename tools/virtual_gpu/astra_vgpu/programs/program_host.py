"""The CUDA runtime of a whole program: guarded memory, virtual time, and every launch whole."""

from __future__ import annotations

import ctypes
import os
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.gpu import VirtualGpu
from astra_vgpu.memory.page_guard import GuardedMemory, MappingsExhausted
from astra_vgpu.model.estimate import Estimate, estimate
from astra_vgpu.programs.library_calls import gemm, random
from astra_vgpu.programs.library_operands import NotAnswered
from astra_vgpu.programs.library_vectors import vector
from astra_vgpu.ptx.parser import PtxSyntaxError
from astra_vgpu.runtime.calls import (
    INVALID_VALUE,
    MEMORY_ALLOCATION,
    UNKNOWN_FUNCTION,
    UNWRITTEN,
    CallsOnGpu,
    CallUnsupported,
    pack_params,
)
from astra_vgpu.runtime.fat_binary import device_code
from astra_vgpu.runtime.host import CopyAccess
from astra_vgpu.runtime.printf import text_of
from astra_vgpu.sass.disassembly import SUFFIX, disassemble
from astra_vgpu.types import Dim3, Fault, LaunchReport, PtxUnsupported

HOST_LINK_BYTES_PER_S = 25e9
"""What copies between host and device are taken to reach: PCIe 4.0 x16."""
COPY_LATENCY_NS = 5_000
DEVICE_TO_HOST = 2
"""Value of enum cudaMemcpyKind."""

Launched = Callable[[LaunchReport, Estimate], None]


class ProgramHost(CallsOnGpu):
    """The calls of the CUDA runtime that a program makes."""

    def __init__(
        self,
        gpu: VirtualGpu,
        memory: GuardedMemory,
        launched: Launched,
        stopped: Callable[[str, bool], None],
        warned: Callable[[str, str], None],
        answered: Callable[[str], None],
        cut_short: Callable[[str], None],
        *,
        keep_going: bool = False,
    ) -> None:
        """stopped: called with what stopped the first kernel, and whether the virtual GPU does
        not support something, at once: the program may not end well. keep_going: a fault is no
        error for the program, and each is told, once a place. warned: called with the place and the
        words of a warning. answered: called with the name of a library's call. cut_short:
        called with the kernel of each launch that a fault stopped."""
        super().__init__(gpu)
        self._guard, self._launched, self._stopped, self._warned = memory, launched, stopped, warned
        self._answered, self._cut_short = answered, cut_short
        self._open_memory: dict[int, NDArray[np.uint8]] = {}
        self._seen: set[str] = set()
        self.sources: Mapping[str, str] = {}
        """Paths of the last launch's sources, by the names that messages give them."""
        self._folder = tempfile.TemporaryDirectory(prefix="astra-program-")
        self._ns = 0.0
        self._touched = 0
        self._to_host: list[tuple[int, int]] = []
        """Address and bytes of each row that is about to be copied to the host."""
        self._broken = False
        self._incomplete = False
        """Whether something did not run, so that what it would have written is missing."""
        self._keep_going, self._told = keep_going, set[tuple[str, str]]()
        self._recording: list[Callable[[], int]] | None = None
        self._graphs: dict[int, list[Callable[[], int]]] = {}

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
        if self._recording is not None:
            return self._note_launch(module, kernel, grid, block, dynamic, args, cooperative)
        ended = len(self._gpu.reports())
        loaded, _ = self._find(module, kernel)
        self.sources = loaded.module.sources if loaded else {}
        try:
            with self._guard:
                error = super().launch(module, kernel, grid, block, dynamic, args, cooperative)
        except Fault:
            self._cut_short(kernel)
            raise
        for report in self._gpu.reports()[ended:]:
            self._print(report)
            assert loaded is not None  # it ran
            warm = kernel in self._seen
            launch_estimate = estimate([report], loaded.resources, self.spec, warm=warm)
            self._seen.add(kernel)
            self._ns += 1e3 * launch_estimate.us
            self._launched(report, launch_estimate)
        return error

    def read(self, fat_binary: int) -> int:
        """The kernels of one of the program's sources, when the first one is asked for."""
        major, minor = self.spec.compute
        code = device_code(fat_binary, 10 * major + minor)
        ptx = Path(self._folder.name) / f"{fat_binary:x}.ptx"
        ptx.write_bytes(code.ptx)
        cubin = ptx.with_suffix(".cubin")
        cubin.write_bytes(code.cubin)
        disassemble(cubin, ptx.with_suffix(SUFFIX))
        with self._guard:
            return self._gpu.adopt(self._gpu.load_kernels(ptx, code.resources))

    def close(self) -> None:
        """Remove what was written down of the program's kernels."""
        self._folder.cleanup()

    def _print(self, report: LaunchReport) -> None:
        """Writes what a launch printed to the program's standard output, behind what its host code
        wrote before the launch."""
        if report.prints:
            with self._guard:
                text = text_of(report.prints, self._memory)
            ctypes.CDLL(None).fflush(None)
            os.write(1, text.encode())

    def allocate(self, nbytes: int) -> tuple[int, int]:
        if self.held() + nbytes > self.spec.memory_bytes:
            return MEMORY_ALLOCATION, 0
        name = f"cudaMalloc number {self._count + 1}"
        try:
            array = self._guard.allocate(nbytes, name, UNWRITTEN)
        except MemoryError:
            return MEMORY_ALLOCATION, 0
        return 0, self._own(array)

    def managed(self, nbytes: int) -> tuple[int, int]:
        error, address = super().allocate(nbytes)
        if not error and (buffer := self._memory.find(address)) is not None:
            buffer.starts_uninitialized = False  # host code writes there too, unseen
            array = self._disown(address)
            assert array is not None  # just allocated
            self._open_memory[address] = array
        return error, address

    def release(self, address: int) -> int:
        if self._open_memory.pop(address, None) is not None:
            self._memory.remove(address, freed=True)
            return 0
        allocated = address in self._allocated
        error = super().release(address)
        if allocated:
            self._guard.release(address)
        return error

    def forget(self) -> int:
        for address in list(self._open_memory):
            self.release(address)
        return super().forget()

    def touch(self, address: int, nbytes: int, access: CopyAccess) -> int:
        self._touched = max(self._touched, nbytes)
        error = super().touch(address, nbytes, access)
        if error:
            self._to_host.clear()
        elif access == CopyAccess.TO_HOST:
            self._to_host.append((address, nbytes))
        return error

    def open(self, on: bool) -> int:
        self._guard.open(on)
        if on:
            self._see_unwritten(self._to_host)
            self._to_host = []
        if not on:
            self._ns += COPY_LATENCY_NS + 1e9 * self._touched / HOST_LINK_BYTES_PER_S
            self._touched = 0
        return 0

    def _see_unwritten(self, rows: Sequence[tuple[int, int]]) -> None:
        """Tells of a copy to the host that takes memory that nothing wrote."""
        if self._incomplete:
            return
        place, missing = "", 0
        for address, nbytes in rows:
            if buffer := self._memory.find(address):
                count, first = buffer.unwritten(address - buffer.address, nbytes)
                missing += count
                place = place or (self._memory.place(buffer.address + first) if count else "")
        if missing:
            total = sum(nbytes for _, nbytes in rows)
            which = " that" if missing == total else f", {missing} of which"
            self._warned(
                f"copy from {place.partition(' of ')[2]}",
                f"uninitialized_copy: a copy to the host of {total} bytes{which} nothing wrote, at"
                f" {place}",
            )

    def now(self) -> int:
        return round(self._ns)

    def broke(self, error: BaseException) -> int:
        if isinstance(error, MappingsExhausted):
            return self.refuse(str(error))
        if not isinstance(error, Fault | PtxUnsupported | PtxSyntaxError):
            traceback.print_exception(error)  # ours
        self._incomplete = True
        if self._keep_going and isinstance(error, Fault):
            return self._pass_over(error)
        if not self._broken:
            refused = isinstance(error, PtxUnsupported | PtxSyntaxError)
            self._stopped(str(error) or type(error).__name__, refused)
        self._broken = True
        return super().broke(error)

    def _pass_over(self, fault: Fault) -> int:
        place = fault.kind, fault.where.partition(", block ")[0]
        if place not in self._told:
            self._told.add(place)
            self._stopped(str(fault), False)
        return 0

    def answer(self, kind: str, call: str, words: Sequence[int]) -> int:
        call = call.removesuffix("_v2")
        try:
            with self._guard:
                if kind == "gemm":
                    gemm(self._memory, call, words, self._warned)
                elif kind == "vector":
                    vector(self._memory, call, words, self._warned)
                else:
                    random(self._memory, call, words)
        except NotAnswered as form:
            return self.refuse(str(form))
        self._answered(call)
        return 0

    def refuse(self, what: str) -> int:
        self._incomplete = True
        self._stopped(str(CallUnsupported(what)), True)
        return super().refuse(what)

    def capture(self, on: bool) -> tuple[int, int]:
        if on:
            self._recording = []
            return 0, 0
        assert self._recording is not None  # the C side pairs the calls
        number = len(self._graphs) + 1
        self._graphs[number], self._recording = self._recording, None
        return 0, number

    def replay(self, graph: int) -> int:
        if graph not in self._graphs:
            return INVALID_VALUE
        return next((error for do in self._graphs[graph] if (error := do())), 0)

    def note(self, to: int, source: int, nbytes: int, kind: int, value: int) -> int:
        def do() -> int:
            if kind == DEVICE_TO_HOST:
                self._see_unwritten([(source, nbytes)])
            with self._guard:
                if source:
                    ctypes.memmove(to, source, nbytes)
                else:
                    ctypes.memset(to, value, nbytes)
            return 0

        assert self._recording is not None
        self._recording.append(do)
        return 0

    def _note_launch(
        self,
        module: int,
        kernel: str,
        grid: Dim3,
        block: Dim3,
        dynamic: int,
        args: int,
        cooperative: bool,
    ) -> int:
        """Keeps the arguments' values of now."""
        entry = self._gpu.loaded(module).module.kernels.get(kernel)
        if entry is None:
            return UNKNOWN_FUNCTION
        packed = pack_params(entry, args)
        values = [
            ctypes.create_string_buffer(packed[p.offset : p.offset + p.size], p.size)
            for p in entry.params
        ]
        places = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))

        def do() -> int:
            assert values is not None  # `places` points into them
            at = ctypes.addressof(places)
            return self.launch(module, kernel, grid, block, dynamic, at, cooperative)

        assert self._recording is not None
        self._recording.append(do)
        return 0
