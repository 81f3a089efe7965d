"""Tables on a terminal and on a pipe."""

from __future__ import annotations

import io

import pytest

from astra_chat.display.console import console
from astra_chat.display.tables import FigureTable, ResultTable, print_rows, table_of

LONG = "a/folder/that/is/quite/long/" * 5 + "transcript.jsonl"
ROWS = [("one", "1.25x", LONG), ("two words", "10.00x", "short")]
HEADINGS = ("name", "best", "path")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_pipe_a_row_is_a_line_of_tabs(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(HEADINGS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("\t") for line in lines] == [list(HEADINGS), *map(list, ROWS)]


def test_on_a_pipe_a_table_is_as_wide_as_it_has_to_be() -> None:
    table, out = FigureTable(box=None), io.StringIO()
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in ROWS:
        table.add_row(*row)
    console(out).print(table)
    assert LONG in out.getvalue()


def test_on_a_pipe_a_result_is_a_line_of_tabs_for_each_row() -> None:
    table, out = ResultTable(title="a file"), io.StringIO()
    for heading in HEADINGS:
        table.add_column(heading)
    for row in ROWS:
        table.add_row(*row)
    console(out).print(table)
    title, *lines = out.getvalue().splitlines()
    assert title == "a file"
    assert [line.split("\t") for line in lines] == [list(HEADINGS), *map(list, ROWS)]


def test_on_a_terminal_words_and_figures_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = Terminal()
    console(out).print(table_of(HEADINGS, ROWS, right=("best",)))
    assert "10.00x" in out.getvalue() and "two words" in out.getvalue()
