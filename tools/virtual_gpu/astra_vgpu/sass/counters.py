"""Counters of a launch from its machine code, where the PTX allows estimates only."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from astra_vgpu.ptx.debug_lines import WAITED
from astra_vgpu.sass.block_mapping import PtxBlock, place
from astra_vgpu.sass.control_flow import basic_blocks, loops
from astra_vgpu.sass.disassembly import (
    Disassembly,
    MachineInstruction,
    MachineKernel,
)
from astra_vgpu.sass.execution_counts import Executions, MappedCode
from astra_vgpu.sass.functional_units import unit_of
from astra_vgpu.sass.pipeline import Timing, timings
from astra_vgpu.sass.store_merging import follow
from astra_vgpu.types import Counters, LaunchReport, Visits

logger = logging.getLogger(__name__)
ODD = (OSError, LookupError, ValueError, ArithmeticError, RuntimeError)
"""Errors from text of another program, on code that a candidate chose: there are the guesses from
the PTX to continue with. Any other error is ours."""
TENTHS = 10
_CALLED = Counter({"alu": 30, "imad": 40, "misc": 20})
"""About what a function that is called for a quotient of 64-bit integers executes."""
_CALL_CYCLES = 400.0


@dataclass(frozen=True)
class Executed:
    """What one launch executed of a kernel's machine code."""

    units: Counter[str]
    """Warp instructions by unit."""
    cycles: int
    """Cycles of the longest warp, without the wait for global memory."""
    rounds: int
    """Rounds of the longest warp's loads that wait for each other."""
    before_load: int
    """Cycles before the longest warp first waits for global memory."""
    cycles_by_unit: Counter[str]
    """The longest warp's cycles by the unit that they are spent on."""
    cycles_by_line: Counter[str]
    """The longest warp's cycles by source line, where that is known."""
    rounds_by_line: Counter[str]
    """The longest warp's rounds by the source lines of the load and of what waits for it."""
    close_stores: float
    """Share of the stores behind another to the same place that come right behind it."""


class KernelCode:
    """The machine code of one kernel, worked out as far as it does not hang on a launch."""

    def __init__(self, kernel: MachineKernel, ptx: Sequence[PtxBlock]) -> None:
        blocks = basic_blocks(kernel)
        self._code = MappedCode(blocks, tuple(loops(blocks)), place(blocks, ptx), tuple(ptx))
        self._executions = Executions(self._code)
        self._units = [_units(block.instructions) for block in blocks]
        self._calls = [sum(map(_is_call, block.instructions)) for block in blocks]
        self._stores = [follow(block.instructions) for block in blocks]
        self._timings: dict[frozenset[int], list[Timing]] = {}
        self._sources = {line: text for block in ptx for line, text in block.sources.items()}

    def executed(self, visits: Visits) -> Executed:
        units: _Sum[str] = _Sum()
        close = behind = 0.0
        of_all = self._executions.of(visits.total)
        for runs, each, stores in zip(of_all, self._units, self._stores, strict=True):
            close, behind = close + runs * stores[0], behind + runs * stores[1]
            units.add(each, runs)
        cycles = rounds = before = 0.0
        spent: _Sum[str] = _Sum()
        lines: _Sum[int] = _Sum()
        loads: _Sum[tuple[int, int]] = _Sum()
        runs_of_longest = self._executions.of(visits.longest)
        costs = self._costs(runs_of_longest)
        for block, (runs, timing) in enumerate(zip(runs_of_longest, costs, strict=True)):
            first = self._executions.entered(block, runs_of_longest)
            for often, cost in ((first, timing.first), (runs - first, timing.steady)):
                cycles += often * cost.cycles
                rounds += often * cost.rounds
                before += often * cost.before_load
                spent.add(cost.units, often)
                lines.add(cost.lines, often)
                loads.add(cost.load_lines, often)
            called = runs * self._calls[block] * _CALL_CYCLES
            cycles += called
            spent.add({"control": called}, 1.0)
        share = close / behind if behind else 1.0
        return Executed(
            units.rounded(),
            round(cycles),
            round(rounds),
            round(before),
            spent.rounded(),
            lines.by(self._sources).rounded(),
            _rounds(loads.by(self._waits(loads))),
            share,
        )

    def _waits(self, loads: Iterable[tuple[int, int]]) -> dict[tuple[int, int], str]:
        """The places of loads whose lines are known, with those of what waits for them."""
        known = self._sources
        return {
            (load, waiting): known[load] + (f"{WAITED}{known[waiting]}" if waiting in known else "")
            for load, waiting in loads
            if load in known
        }

    def _costs(self, runs: Sequence[float]) -> list[Timing]:
        """Timings of each block where these are executed; launches differ in few of them."""
        executed = frozenset(block for block, often in enumerate(runs) if often)
        if executed not in self._timings:
            self._timings[executed] = timings(self._code, executed)
        return self._timings[executed]


Key = TypeVar("Key")


class _Sum(dict[Key, float]):
    """Sums by key."""

    def add(self, parts: Mapping[Key, float], often: float) -> None:
        for key, some in parts.items():
            self[key] = self.get(key, 0.0) + often * some

    def by(self, names: Mapping[Key, str]) -> _Sum[str]:
        """Returns the sums by name, without those of keys that have none."""
        named: _Sum[str] = _Sum()
        for key, some in self.items():
            if key in names:
                named.add({names[key]: some}, 1.0)
        return named

    def rounded(self) -> Counter[Key]:
        """Sums as whole numbers, without those that round to 0."""
        return Counter({key: round(some) for key, some in self.items() if round(some)})


def _rounds(by_places: Mapping[str, float]) -> Counter[str]:
    """Whole rounds of each load: where it is waited for at several places, what is left of their
    sum is the first's with most."""
    by_load: dict[str, dict[str, float]] = {}
    for places, some in by_places.items():
        by_load.setdefault(places.partition(WAITED)[0], {})[places] = some
    found: Counter[str] = Counter()
    for parts in by_load.values():
        most = max(parts, key=lambda places: parts[places])
        found.update({places: int(some) for places, some in parts.items()})
        found[most] += round(sum(parts.values())) - sum(map(int, parts.values()))
    return +found


class MachineCode:
    """The machine code of a file's kernels, as far as it is known."""

    def __init__(self, text: Path) -> None:
        self._disassembly = Disassembly(text)
        self._known: dict[str, tuple[Sequence[PtxBlock], KernelCode | None]] = {}

    def kernel(self, name: str, ptx: Sequence[PtxBlock]) -> KernelCode | None:
        """The code of one kernel; None where there is no text, or where it is not understood."""
        known, code = self._known.get(name, (None, None))
        if known is not ptx:
            code = self._read(name, ptx)
            self._known[name] = ptx, code
        return code

    def _read(self, name: str, ptx: Sequence[PtxBlock]) -> KernelCode | None:
        try:
            return KernelCode(self._disassembly.kernel(name), ptx)
        except ODD as error:
            _note(name, error)
            return None

    def counted(self, report: LaunchReport, ptx: Sequence[PtxBlock]) -> LaunchReport:
        """The report with counters of machine code where that is known."""
        code = self.kernel(report.launch.kernel, ptx) if report.visits is not None else None
        if code is None or report.visits is None:
            return report
        try:
            executed = code.executed(report.visits)
        except ODD as error:
            _note(report.launch.kernel, error)
            return report
        return dataclasses.replace(report, counters=changed(report.counters, executed))


def _note(kernel: str, error: Exception) -> None:
    logger.info("counters of %s are guesses from its PTX: %r", kernel, error)


def changed(counters: Counters, executed: Executed) -> Counters:
    """Counters of a launch with those of its machine code in place of the PTX's."""
    waited = counters.dependent_load_rounds
    # Those waited for at mbarriers may be of another warp than the longest one.
    rounds = min(executed.rounds + counters.mbarrier_rounds, max(executed.rounds, waited))
    rounds = max(rounds, min(waited, 1))
    fresh = round(rounds * counters.fresh_load_rounds / waited) if waited else 0
    fresh = max(fresh, min(counters.fresh_load_rounds, rounds, 1))
    apart = 3 * counters.store_packets
    spared = executed.close_stores * (apart - counters.store_packet_thirds)
    return dataclasses.replace(
        counters,
        machine_instructions=executed.units,
        issue_tenths=TENTHS * executed.units.total(),
        alu_tenths=TENTHS * executed.units["alu"],
        special_tenths=TENTHS * executed.units["xu"],
        critical_path_cycles=executed.cycles,
        critical_path_before_load=executed.before_load,
        critical_path_units=executed.cycles_by_unit,
        critical_path_lines=executed.cycles_by_line,
        critical_path_load_lines=executed.rounds_by_line,
        dependent_load_rounds=rounds,
        store_packet_thirds=round(apart - spared),
        fresh_load_rounds=fresh,
    )


def _units(code: Sequence[MachineInstruction]) -> Counter[str]:
    units = Counter(unit_of(i) for i in code if i.name != "NOP")
    for instruction in code:
        if _is_call(instruction):
            units.update(_CALLED)
    return units


def _is_call(instruction: MachineInstruction) -> bool:
    """Whether it calls a function that divides."""
    functions = ("div", "rem")
    return instruction.name == "CALL" and any(f in instruction.operands for f in functions)
