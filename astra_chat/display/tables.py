"""Tables: aligned on a terminal; a list on a pipe is tab-separated, one row a line, for other
programs; and no table on a pipe breaks a word or a path."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from astra_chat.display.console import console
from astra_chat.tools.text import plain

UNBOUNDED = 10_000
"""Columns of a table where nobody's screen limits it."""
LONGEST_WORD = 24
"""Columns up to which a word is never broken."""


class FigureTable(Table):
    """A table of figures, which off a terminal is as wide as it has to be."""

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        if not out.is_terminal:
            options = options.update(max_width=UNBOUNDED)
        yield from super().__rich_console__(out, options)


class ResultTable(FigureTable):
    """A table that is a command's result: off a terminal it is tab-separated, like a list."""

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> RenderResult:
        if out.is_terminal:
            yield from super().__rich_console__(out, options)
            return
        if self.title:
            yield Segment(f"{self.title}\n")
        columns = [[str(column.header), *map(str, column.cells)] for column in self.columns]
        for row in zip(*columns, strict=True):
            yield Segment("\t".join(plain(" ".join(cell.split())) for cell in row) + "\n")


def print_rows(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    one_line: bool = False,
) -> None:
    """Print a list; `right`: headings of figures, which go to the right of their columns;
    `one_line`: a terminal shows as much of the last column as there is room for."""
    out = console()
    if out.is_terminal:
        out.print(table_of(headings, rows, right, one_line))
        return
    for row in (headings, *rows):
        print("\t".join(plain(" ".join(cell.split())) for cell in row))


def table_of(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[str] = (),
    one_line: bool = False,
) -> Table:
    """A table that wraps between words where it is too wide, the last column wherever it has to;
    figures are never cut."""
    table = Table(box=None, pad_edge=False)
    for place, heading in enumerate(headings):
        figures, last = heading in right, place == len(headings) - 1
        words = " ".join([heading, *(row[place] for row in rows)]).split()
        table.add_column(
            heading,
            justify="right" if figures else "left",
            no_wrap=figures,
            overflow="fold",
            min_width=None if last else min(LONGEST_WORD, max(map(len, words), default=1)),
        )
    for row in rows:
        end = Text(row[-1], no_wrap=one_line, overflow="ellipsis" if one_line else "fold")
        table.add_row(*map(Text, row[:-1]), end)
    return table


def fits(table: Table, out: Console) -> bool:
    """Whether the table needs no more than the screen has."""
    unlimited = out.options.update(max_width=UNBOUNDED)
    return Measurement.get(out, unlimited, table).maximum <= out.width or not out.is_terminal
