"""Cycles that a lone warp takes for each block of machine code, and how often it waits for memory.

The blocks that it runs are simulated in the order of their text, each loop several times: an
instruction issues once the stall cycles of the previous one have passed and the scoreboards that it
waits for are released. Loads from global memory cost nothing here but a round: the longest chain of
dependent waits. What an arm that the warp does not run would have waited for, another waits for;
where it runs both by turns, in a loop, the first in the text does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from astra_vgpu.sass.disassembly import SCOREBOARDS, MachineInstruction
from astra_vgpu.sass.execution_counts import MappedCode
from astra_vgpu.sass.functional_units import (
    BRANCH_CYCLES,
    MEMORY,
    MEMORY_READ_CYCLES,
    READ_CYCLES,
    TENSOR_CYCLES,
    XU_CYCLES,
    latency,
    loads,
    unit_of,
)

_TURNS = (3, 3, 2)
"""Turns of a loop that are simulated, by how deep it lies; further in, one. The last turn counts as
all but the first."""
_TENSOR_CYCLES = 7
_BOARD = re.compile(r"SB(\d)")


@dataclass(frozen=True)
class Cost:
    """What one run of a block costs the warp."""

    cycles: float
    rounds: int
    before_load: float = field(default=0.0, compare=False)
    """Cycles before the warp first waits for global memory."""
    units: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Cycles by the unit whose result, queue or issue they are spent on."""
    lines: Mapping[int, float] = field(default_factory=dict, compare=False)
    """Cycles by the PTX line of the instruction whose result, queue or issue they are spent on."""
    load_lines: Mapping[tuple[int, int], int] = field(default_factory=dict, compare=False)
    """Rounds by the lines of the load that is waited for, and of what waits for it."""


@dataclass(frozen=True)
class Timing:
    """Cost of a block in the first turn of its loop, and in all others."""

    first: Cost
    steady: Cost


@dataclass(frozen=True)
class _Holder:
    """What an instruction is that others wait for."""

    unit: str = ""
    line: int = 0


@dataclass
class _Warp:
    now: float = 0.0
    level: int = 0
    """Rounds of loads that it has waited for."""
    free: list[float] = field(default_factory=lambda: [0.0] * SCOREBOARDS)
    """When each scoreboard is released."""
    levels: list[int] = field(default_factory=lambda: [0] * SCOREBOARDS)
    """Round of loads after which each scoreboard is released."""
    load_lines: list[int] = field(default_factory=lambda: [0] * SCOREBOARDS)
    """Line of the load of each scoreboard's last round."""
    holders: list[_Holder] = field(default_factory=lambda: [_Holder()] * SCOREBOARDS)
    """What releases each scoreboard last."""
    units: dict[str, float] = field(default_factory=dict)
    """When each unit takes the next instruction."""
    before_load: float = 0.0
    spent: dict[_Holder, float] = field(default_factory=dict)
    """Cycles since `run` began, by what they are spent on."""
    rounds: dict[tuple[int, int], int] = field(default_factory=dict)
    """Rounds of loads since `run` began, by the lines of the load and of what waits for it."""

    def run(self, code: Sequence[MachineInstruction]) -> Cost:
        start, waited, before = self.now, self.level, self.before_load
        self.spent, self.rounds = {}, {}
        for instruction in code:
            self._issue(instruction)
        units: dict[str, float] = {}
        lines: dict[int, float] = {}
        for holder, cycles in self.spent.items():
            units[holder.unit] = units.get(holder.unit, 0.0) + cycles
            lines[holder.line] = lines.get(holder.line, 0.0) + cycles
        return Cost(
            self.now - start,
            self.level - waited,
            self.before_load - before,
            units,
            lines,
            self.rounds,
        )

    def _issue(self, i: MachineInstruction) -> None:
        for board in _boards(i):
            self._spend(self.free[board] - self.now, self.holders[board])
            self._wait_for_load(board, i.line)
        unit = unit_of(i)
        own = _Holder(unit, i.line)
        busy = {"xu": XU_CYCLES, "tensor": TENSOR_CYCLES.get(i.name, _TENSOR_CYCLES)}.get(unit)
        if busy is not None:
            self._spend(self.units.get(unit, 0.0) - self.now, own)
            self.units[unit] = self.now + busy
        if i.result_board < SCOREBOARDS:
            self._hold(i.result_board, latency(i), own)
            if loads(i) and self.level + 1 > self.levels[i.result_board]:
                self.levels[i.result_board] = self.level + 1
                self.load_lines[i.result_board] = i.line
        if i.operand_board < SCOREBOARDS:
            self._hold(i.operand_board, MEMORY_READ_CYCLES if unit in MEMORY else READ_CYCLES, own)
        stops = unit == "barrier" or i.name == "MEMBAR"
        self._spend(max(1, i.stall) + (latency(i) if stops else 0), own)
        self._spend(BRANCH_CYCLES if i.name in ("BRA", "BSYNC") else 0, own)

    def _wait_for_load(self, board: int, waiting: int) -> None:
        if more := max(0, self.levels[board] - self.level):
            self.level += more
            lines = self.load_lines[board], waiting
            self.rounds[lines] = self.rounds.get(lines, 0) + more

    def _spend(self, cycles: float, holder: _Holder) -> None:
        """No cycles where they are not more than 0: what is waited for is there."""
        if cycles > 0:
            self.now += cycles
            self.spent[holder] = self.spent.get(holder, 0.0) + cycles
            self.before_load += 0.0 if self.level else cycles

    def _hold(self, board: int, cycles: int, holder: _Holder) -> None:
        if self.now + cycles > self.free[board]:
            self.free[board], self.holders[board] = self.now + cycles, holder


def _boards(instruction: MachineInstruction) -> Sequence[int]:
    """Scoreboards that it waits for."""
    if instruction.name == "DEPBAR" and (match := _BOARD.search(instruction.operands)):
        return (*instruction.waits, min(int(match[1]), SCOREBOARDS - 1))
    return instruction.waits


def timings(code: MappedCode, executed: frozenset[int]) -> list[Timing]:
    """Returns the timing of each block where the warp executes these; all others, and rare ones,
    take no time."""
    return _Run(code, executed).timings()


class _Run:
    def __init__(self, code: MappedCode, executed: frozenset[int]) -> None:
        self._code, self._executed = code, executed
        self._heads = {loop.head: loop for loop in code.loops}
        self._warp = _Warp()
        self._first: dict[int, Cost] = {}
        self._steady: dict[int, Cost] = {}

    def timings(self) -> list[Timing]:
        everything = range(len(self._code.blocks))
        self._sweep(everything, frozenset())
        return [
            Timing(
                self._first[n] if self._code.loop_of(n) is not None else self._steady[n],
                self._steady[n],
            )
            for n in everything
        ]

    def _sweep(self, blocks: Sequence[int], inside: frozenset[int]) -> None:
        """Runs these blocks in order, but for loops whose head is not among `inside` as a whole."""
        done: set[int] = set()
        for number in blocks:
            if number in done:
                continue
            if number in self._heads and number not in inside:
                done |= self._turn(self._heads[number].members, inside | {number})
                continue
            block = self._code.blocks[number]
            taken = number in self._executed and not block.rare
            cost = self._warp.run(block.instructions) if taken else Cost(0.0, 0)
            self._steady[number] = cost
            self._first.setdefault(number, cost)

    def _turn(self, members: frozenset[int], inside: frozenset[int]) -> frozenset[int]:
        depth = len(inside) - 1
        for turn in range(_TURNS[depth] if depth < len(_TURNS) else 1):
            self._sweep(sorted(members), inside)
            if turn == 0:
                self._first.update({n: self._steady[n] for n in members})
        return members
