"""The NumPy engine's tests with each launch on both engines, and compared."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from astra_vgpu import c_engine, numpy_engine
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.numpy_engine.batch import TURN
from astra_vgpu.ptx.parser import Module
from astra_vgpu.types import Fault, Launch, LaunchReport, PtxUnsupported

LINE_BYTES = 128
REFERENCE_TESTS = Path(__file__).parents[1] / "numpy_engine"


def load_reference(name: str) -> ModuleType:
    """A file of the NumPy engine's tests, as a module of our own."""
    full = f"both_engines_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, REFERENCE_TESTS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


class Both:
    """In the place of an engine: runs the reference, then the C engine on the same memory.

    What C left there stays, so the tests' own expectations are of its results. Where blocks talk to
    each other by atomics their order shows in the bytes, and only those expectations hold.
    """

    def __init__(self) -> None:
        self.only_numpy: set[str] = set()
        """Kernels that the C engine refused."""

    def translate(
        self, module: Module, kernel: str, *, cooperative: bool = False
    ) -> tuple[Any, Any]:
        reference = numpy_engine.translate(module, kernel, cooperative=cooperative)
        try:
            return reference, c_engine.translate(module, kernel, cooperative=cooperative)
        except PtxUnsupported as lack:
            assert "on the C engine" in str(lack)
            self.only_numpy.add(kernel)
            return reference, None

    def run(
        self, programs: tuple[Any, Any], launch: Launch, memory: Memory, **options: Any
    ) -> LaunchReport:
        before = [buffer.data.copy() for buffer in memory.buffers]
        written = [None if b.written is None else b.written.copy() for b in memory.buffers]
        try:
            report, fault = numpy_engine.run(programs[0], launch, memory, **options), None
        except Fault as caught:
            report, fault = None, caught
        after = [buffer.data.copy() for buffer in memory.buffers]
        if programs[1] is not None and not memory.descending:  # which only NumPy knows
            for buffer, old in zip(memory.buffers, before, strict=True):
                if buffer.data.flags.writeable:
                    buffer.data[:] = old
            for buffer, flags in zip(memory.buffers, written, strict=True):
                buffer.written = flags
            self._second(programs[1], launch, memory, report, fault, options)
            if fault is None and not programs[1].serial:
                for buffer, expected in zip(memory.buffers, after, strict=True):
                    same_bytes(buffer.data, expected, buffer.name)
        if fault is not None:
            raise fault
        assert report is not None
        return report

    def _second(
        self,
        program: c_engine.Program,
        launch: Launch,
        memory: Memory,
        report: LaunchReport | None,
        fault: Fault | None,
        options: dict[str, Any],
    ) -> None:
        if fault is None:
            found = c_engine.run(program, launch, memory, **options)
            # How often warps try depends on who comes first.
            retries = any(".cas." in i.opcode for i in program.instructions)
            uncertain = retries or program.reference.reserves or share_a_line(memory)
            assert report is not None
            longest = max(one.counters.critical_path_instructions for one in (found, report))
            # Warps may have spun for a turn.
            uncertain |= program.reference.looks and longest >= TURN
            assert found == report or uncertain
            return
        with pytest.raises(Fault) as caught:
            c_engine.run(program, launch, memory, **options)
        # The engines take warps in another order: of several places at fault each finds its own,
        # and of a copy and a read that nothing orders, whichever comes second.
        unordered = {caught.value.kind, fault.kind} == {"race", "missing_wait"}
        assert caught.value.kind == fault.kind or unordered
        assert caught.value.cuda_error == fault.cuda_error
        if not unordered and fault.kind not in ("timeout", "race", "barrier_divergence"):
            assert (caught.value.message, caught.value.where) == (fault.message, fault.where)


def share_a_line(memory: Memory) -> bool:
    """Whether two buffers lie in one line of the L2, as NumPy's allocator may place them and CUDA's
    does not: then what a load finds there depends on which warp came first."""
    places = sorted((b.data.ctypes.data, b.data.nbytes) for b in memory.buffers)
    ends = [(start + size - 1) // LINE_BYTES for start, size in places]
    starts = [start // LINE_BYTES for start, _ in places[1:]]
    return any(end >= start for end, start in zip(ends, starts, strict=False))


def same_bytes(got: Any, expected: Any, name: str) -> None:
    """Equal bytes; or, where they differ, NaNs of any payload, as float32 or as float64."""
    if np.array_equal(got, expected):
        return
    counts = []
    for kind, bits in ((np.float32, np.uint32), (np.float64, np.uint64)):
        size = got.size // kind().itemsize * kind().itemsize
        a, b = got[:size].view(kind), expected[:size].view(kind)
        differ = a.view(bits) != b.view(bits)
        rest = np.array_equal(got[size:], expected[size:])
        if rest and np.isnan(a[differ]).all() and np.isnan(b[differ]).all():
            return
        counts.append(int(differ.sum()))
    raise AssertionError(f"{name}: {counts[0]} words differ")


bench = load_reference("conftest")
"""The bench that those tests use, for both engines."""
engines = Both()
bench.numpy_engine = engines  # type: ignore[attr-defined]


def on_both_engines(name: str) -> dict[str, Any]:
    """Tests and fixtures of a file of the NumPy engine's tests; their launches are compared."""
    module = load_reference(name)
    if hasattr(module, "Bench"):
        module.Bench = bench.Bench
    return {n: value for n, value in vars(module).items() if not n.startswith("__")}
