"""How often each block of machine code ran, from the visits of the PTX's basic blocks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_vgpu.sass.block_mapping import Placement, PtxBlock
from astra_vgpu.sass.control_flow import Loop, MachineBlock, predecessors

_MAX_LINES = 0.6
"""A block with this share of the lines of a PTX block does its work; one with less does a part."""


@dataclass(frozen=True)
class MappedCode:
    """A kernel's machine code as the rest of the package sees it."""

    blocks: tuple[MachineBlock, ...]
    loops: tuple[Loop, ...]
    """Outer ones before inner ones."""
    placements: tuple[Placement, ...]
    ptx: tuple[PtxBlock, ...]

    def loop_of(self, block: int) -> Loop | None:
        """The innermost loop of a block."""
        return next((x for x in reversed(self.loops) if block in x.members), None)


@dataclass(frozen=True)
class _Group:
    """The machine blocks of one PTX block."""

    home: int
    copies: tuple[int, ...]
    """Machine blocks that do its work, as a whole or several visits at once; the largest first."""
    parts: tuple[int, ...]


class Executions:
    """Works out how often each block of one kernel's machine code ran."""

    def __init__(self, code: MappedCode) -> None:
        self._code = code
        self._before = predecessors(code.blocks)
        self._loops = [code.loop_of(n) for n in range(len(code.blocks))]
        self._entries = [_entries(loop, self._before) for loop in self._loops]
        self._groups = _groups(code, self._loops)
        self._comes_from: list[set[int]] = [set() for _ in code.ptx]
        for number, block in enumerate(code.ptx):
            for successor in block.successors:
                self._comes_from[successor].add(number)

    def of(self, visits: Sequence[int]) -> list[float]:
        """How often each block of machine code ran, for these visits of the PTX's; one without a
        place ran as often as what comes before it."""
        runs = [0.0] * len(self._code.blocks)
        for group in self._groups:
            if visits[group.home]:
                self._spread(group, visits, runs)
        for number, block in enumerate(self._code.blocks):
            if self._code.placements[number].block is None and not block.rare:
                before = (self._comes(n, number, runs) for n in self._before[number])
                runs[number] = max(before, default=0.0)
        return runs

    def entered(self, block: int, runs: Sequence[float]) -> float:
        """How often the block ran as part of its loop's first turn; 0 outside of loops."""
        return min(sum(runs[n] for n in self._entries[block]), runs[block])

    def _comes(self, block: int, behind: int, runs: Sequence[float]) -> float:
        """How often control may come from one block to another."""
        loop = self._loops[block]
        leaves = loop is not None and behind not in loop.members
        return self.entered(block, runs) if leaves else runs[block]

    def _spread(self, group: _Group, visits: Sequence[int], runs: list[float]) -> None:
        """The visits of a PTX block over its machine blocks."""
        total = visits[group.home]
        looped = group.home in self._code.ptx[group.home].successors
        others = self._comes_from[group.home] - {group.home}
        entered = min(sum(visits[n] for n in others) or 1, total)
        placements = self._code.placements
        if group.copies:
            for number, share in self._shares(group.copies, total, entered, looped).items():
                runs[number] = share
        by_loop = {self._loops[n]: runs[n] for n in reversed(group.copies)}
        for number in group.parts:
            loop = self._loops[number]
            if not group.copies:
                often = total if loop is not None or not looped else entered
                runs[number] = often / placements[number].copies
            elif loop is not None and loop in by_loop:
                runs[number] = by_loop[loop]
            else:
                runs[number] = entered if looped else total

    def _shares(
        self, copies: Sequence[int], total: int, entered: int, looped: bool
    ) -> Mapping[int, float]:
        """Each visit is done by one of the copies."""
        visits_each = {n: self._code.placements[n].copies for n in copies}
        if (
            len(copies) == 1
            or self._alike(copies, visits_each)
            or (not looped and visits_each[copies[0]] == 1)
        ):
            return {n: total / len(copies) / visits_each[n] for n in copies}
        # An unrolled loop: as many turns as can be by the largest copy, the rest by smaller ones.
        turns, shares = total / entered, {}
        for number in copies:
            share = turns / visits_each[number]
            if number != copies[-1]:
                share = math.floor(share + 1e-9)
                share = share if self._loops[number] is not None else min(1, share)
            turns = max(0.0, turns - share * visits_each[number])
            shares[number] = share * entered
        return shares

    def _alike(self, copies: Sequence[int], visits_each: Mapping[int, int]) -> bool:
        in_loops = all(self._loops[n] is not None for n in copies)
        return in_loops and len(set(visits_each.values())) == 1


def _entries(loop: Loop | None, before: Sequence[Sequence[int]]) -> list[int]:
    return [] if loop is None else [n for n in before[loop.head] if n not in loop.members]


def _groups(code: MappedCode, loops: Sequence[Loop | None]) -> list[_Group]:
    homes: dict[int, list[int]] = defaultdict(list)
    for number, placement in enumerate(code.placements):
        if placement.block is not None:
            homes[placement.block].append(number)
    return [_group(home, members, code.placements, loops) for home, members in homes.items()]


def _group(
    home: int, members: Sequence[int], places: Sequence[Placement], loops: Sequence[Loop | None]
) -> _Group:
    """What does the work is shown by lines that are not moved, if there are any."""
    fixed = frozenset[int]().union(*(places[n].fixed for n in members))
    lines = {n: places[n].fixed if fixed else places[n].lines for n in members}
    wanted = _MAX_LINES * len(frozenset[int]().union(*lines.values()))
    copies = [n for n in members if len(lines[n]) >= wanted]
    parts = [n for n in members if n not in copies]
    copies.sort(key=lambda n: (-places[n].copies, loops[n] is None))
    return _Group(home, tuple(copies), tuple(parts))
