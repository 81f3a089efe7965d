"""A campaign on the screen: a live table on a terminal, else a line for each change; at the end the
tables of results.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from astra_chat.campaign.index import Index
from astra_chat.campaign.results import (
    ARM_HEADINGS,
    ARMS_NOTE,
    RUN_HEADINGS,
    arm_cells,
    arms_of,
    run_cells,
    totals_text,
)
from astra_chat.campaign.rows import CampaignRow
from astra_chat.display.console import console
from astra_chat.display.tables import fits, print_rows, table_of

SHOWN = 30
"""Runs in the live table."""
FIRST = ("failed", "unreadable", "running", "waiting", "left_out", "stopped", "ended", "new")
"""States by what the reader has to see; what does not fit is left out."""
RIGHT = ("speed-up", "interval", "evaluations", "tokens", "dollars", "seconds", "runs")
SHARED = ("task", "strategy", "model", "start", "device")
"""Columns that say what a run is: the only ones that may stand above the table."""
COSTS = ("evaluations", "tokens", "dollars", "seconds")


class Overview:
    """Shows nothing; a base for those that do."""

    def changed(self, row: CampaignRow) -> None:
        """A run begins, ends or fails."""

    def looked(self, index: Index) -> None:
        """The index as a whole, about once a second."""


class LineOverview(Overview):
    """A line for each change."""

    def __init__(self, screen: Console) -> None:
        self._screen = screen

    def changed(self, row: CampaignRow) -> None:
        self._screen.print(_line(row), soft_wrap=True)


class LiveTable(Overview):
    """A table of the runs that is drawn again in place; failures stay above it as lines."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def changed(self, row: CampaignRow) -> None:
        if row.state == "failed":
            self._live.console.print(_line(row), soft_wrap=True)

    def looked(self, index: Index) -> None:
        self._live.update(live_table(index), refresh=True)


@contextmanager
def overview(quiet: bool) -> Iterator[Overview]:
    """The view that fits the output."""
    screen = console()
    if quiet:
        yield Overview()
    elif not screen.is_terminal:
        yield LineOverview(screen)
    else:
        with Live(console=screen, auto_refresh=False, transient=True) as live:
            yield LiveTable(live)


def live_table(index: Index) -> RenderableType:
    """Where the runs stand now."""
    table = Table(box=None, pad_edge=False)
    for heading in ("run", "state", "best", "evaluations", "tokens", "s", ""):
        table.add_column(heading, overflow="ellipsis", no_wrap=heading not in ("run", ""))
    ordered = sorted(index.runs, key=lambda row: FIRST.index(row.state))
    for row in ordered[:SHOWN]:
        best = f"{row.search[-1]:.3f}x {row.basis}" if row.search else ""
        table.add_row(
            Text(row.plan.id, no_wrap=True, overflow="ellipsis"),
            row.state.replace("_", " "),
            best,
            str(row.evaluations),
            f"{row.tokens:,}",
            f"{row.seconds:.0f}",
            Text(row.words, no_wrap=True, overflow="ellipsis"),
        )
    rest = len(ordered) - SHOWN
    more = [Text(f"and {rest} more")] if rest > 0 else []
    totals = Text(totals_text(index), "dim")
    return Group(table, *more, totals)


def show(index: Index) -> None:
    """The tables, then what is wrong or waited for, then the totals."""
    screen = console()
    _print_table(screen, RUN_HEADINGS, [run_cells(row) for row in index.runs])
    if arms := arms_of(index.runs):
        screen.print()
        screen.print(Text(ARMS_NOTE, "bold"), soft_wrap=True)
        _print_table(screen, ARM_HEADINGS, [arm_cells(arm) for arm in arms])
    screen.print()
    for row in index.runs:
        if row.state not in ("ended", "new"):
            screen.print(_line(row), soft_wrap=True)
    screen.print(totals_text(index), soft_wrap=True)


def _print_table(screen: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table of rows, whole on a pipe. On a terminal what the runs are, where all rows have
    it in common, is above the table; figures never are. Where it is still too wide, what the runs
    cost is a table of its own below."""
    if not screen.is_terminal:
        print_rows(headings, rows)
        return
    columns = {name: [row[place] for row in rows] for place, name in enumerate(headings)}
    shared = {n for n in SHARED if len(rows) > 1 and len(set(columns.get(n, ()))) == 1}
    said = ", ".join(f"{name} {columns[name][0]}" for name in headings if name in shared)
    if said:
        screen.print(Text(f"all: {said}", "dim"), soft_wrap=True)
    names = [name for name in headings if name not in shared]
    whole = _of(columns, names)
    costs = [name for name in names if name in COSTS]
    if fits(whole, screen) or not costs:
        screen.print(whole)
        return
    which = [name for name in names if name in (*SHARED, "repeat")]
    screen.print(_of(columns, [name for name in names if name not in costs]))
    screen.print(Text("\ncost", "bold"))
    screen.print(_of(columns, [*which, *costs]))


def _of(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> Table:
    rows = list(zip(*(columns[name] for name in names), strict=True))
    return table_of(names, rows, RIGHT)


def _line(row: CampaignRow) -> str:
    return f"{row.plan.id}: {row.state.replace('_', ' ')}: {row.words}"
