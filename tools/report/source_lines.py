"""Which lines of a kernel its longest warp spends its chain of results on, as a prompt shows it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from astra_chat.tools.text import one_line
from astra_chat.tools.types import Profile, SourceLine
from astra_chat.tools.wording import counted

MOST_LINES = 12
"""Costliest lines that are shown, in the order of the source; all others by region."""
LONGEST_TEXT = 50
"""Characters of a line's text, at most."""
MOST_REGIONS, NEAR = 4, 3
"""Parts of the kernel for the other lines, at most; lines no farther apart are in one."""
Place = tuple[int, tuple[int, ...]]
"""A line, and those of the calls that it is inlined at."""
Lines = dict[Place, SourceLine]
"""The lines of a case's profile."""


def source_rows(profiles: Sequence[Profile]) -> list[tuple[str, list[str]]]:
    """Labels and cells of the rows: the cycles of each of the costliest lines in each case and
    those of the others by region, then the lines of loads that the warp waits for, with the rounds
    and where it waits. Nothing where no profile has lines.
    """
    tables = [{_place(line): line for line in profile.lines} for profile in profiles]
    lines = {place: line for table in tables for place, line in table.items()}
    costs = {
        place: max(table[place].chain_cycles for table in tables if place in table)
        for place in lines
    }
    by_cost = sorted(costs, key=lambda place: -costs[place])
    costliest, others = by_cost[:MOST_LINES], [one for one in by_cost[MOST_LINES:] if costs[one]]
    rows = [
        (f"chain_cycles of {_label(lines[place])}", _cells(tables, place, "chain_cycles"))
        for place in sorted(costliest, key=_in_order)
    ]
    rows += [_region(region, tables) for region in _regions(others)]
    waited = [place for place in lines if any(t[place].load_rounds for t in tables if place in t)]
    rows += [
        (
            f"load_rounds of {_label(lines[place])}{_waited_at(tables, place)}",
            _cells(tables, place, "load_rounds"),
        )
        for place in sorted(waited, key=_in_order)
    ]
    return rows


def _regions(places: Sequence[Place]) -> list[list[Place]]:
    """Places by the part of the kernel in which they stand: cut where the most lines lie between
    them, into at most MOST_REGIONS."""
    ordered = sorted(places, key=_in_order)
    gaps = [_in_order(b)[0] - _in_order(a)[0] for a, b in pairwise(ordered)]
    widest = sorted(range(len(gaps)), key=lambda at: -gaps[at])[: MOST_REGIONS - 1]
    cuts = [0, *(at + 1 for at in sorted(widest) if gaps[at] > NEAR), len(ordered)]
    return [ordered[a:b] for a, b in pairwise(cuts) if a < b]


def _region(region: Sequence[Place], tables: Sequence[Lines]) -> tuple[str, list[str]]:
    """The label of a region's row, and its cycles in each case."""
    sums = [sum(t[one].chain_cycles for one in region if one in t) for t in tables]
    cells = [f"{cycles:.0f}" if t else "-" for cycles, t in zip(sums, tables, strict=True)]
    first, last = (_in_order(region[at])[0] for at in (0, -1))
    if last == 0:  # nvcc names no line for some instructions
        return "chain_cycles of code without a source line", cells
    where = f"line {first}" if first == last else f"lines {first} to {last}"
    return f"chain_cycles of {counted(len(region), 'other line')} in {where}", cells


def _place(line: SourceLine) -> Place:
    return line.line, line.calls


def _in_order(place: Place) -> list[int]:
    """Returns the lines of a place from the kernel's own inwards, to order places as the kernel
    calls them."""
    line, calls = place
    return [*calls[::-1], line]


def _label(line: SourceLine) -> str:
    text = one_line(line.text)
    cut = text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."
    return f"{line.place} `{cut}`"


def _waited_at(tables: Sequence[dict[Place, SourceLine]], place: Place) -> str:
    """Returns where the warp waits for this place's loads, of the case with most rounds; "" where
    it is not known."""
    most = max((t[place] for t in tables if place in t), key=lambda line: line.load_rounds)
    return f", waited for at {most.waited_at}" if most.waited_at else ""


def _cells(tables: Sequence[dict[Place, SourceLine]], place: Place, name: str) -> list[str]:
    """Returns a place's figure in each case: 0 where the case runs other code, a dash where nothing
    of it was counted."""
    return [
        "-" if not table else f"{getattr(table[place], name):.0f}" if place in table else "0"
        for table in tables
    ]
