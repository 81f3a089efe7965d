"""The campaign on the screen: lines in a pipe, a table in place on a terminal."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.live import Live

from astra_chat.campaign.campaign_file import CampaignFile
from astra_chat.campaign.index import index_of
from astra_chat.campaign.overview import SHOWN, LiveTable, live_table, overview, show
from astra_chat.display.console import PlainConsole
from tests.astra_chat.campaign.test_results import row

FILE = CampaignFile.model_validate({"schema": 1, "tasks": ["t"], "models": ["m"]})
FAILED = row("tree", 1, (), state="failed", words="no [bold]key", basis=None)


def test_in_a_pipe_each_change_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    with overview(quiet=False) as view:
        view.changed(FAILED)
        view.looked(index_of(FILE, [FAILED], 1.0))
    with overview(quiet=True) as view:
        view.changed(FAILED)
    assert capsys.readouterr().out == "tree-1: failed: no [bold]key\n"


def test_on_a_terminal_failures_stay_and_the_table_is_drawn_again() -> None:
    screen = PlainConsole(
        file=StringIO(), width=120, markup=False, highlight=False, force_terminal=True
    )
    with Live(console=screen, auto_refresh=False) as live:
        view = LiveTable(live)
        view.changed(FAILED)
        view.looked(index_of(FILE, [FAILED, row("best", 1, (1.0, 1.25))], 7.0))
    said = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "tree-1: failed: no [bold]key" in said and "1.250x estimated" in said
    assert "1 of 2 runs ended" in said


def test_of_many_runs_those_with_news_are_shown() -> None:
    rows = [row("best", n, (1.0,), state="new") for n in range(1, SHOWN + 3)]
    running = row("tree", 1, (1.0,), state="running", words="the judge is working")
    screen = PlainConsole(file=StringIO(), width=120)
    screen.print(live_table(index_of(FILE, [*rows, running], 1.0)))
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[1].startswith("tree-1") and "the judge is working" in lines[1]
    assert "and 3 more" in lines and len(lines) == SHOWN + 4, "the totals take two lines"


def test_at_the_end_the_tables_and_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    show(index_of(FILE, [FAILED, row("best", 1, (1.0, 1.25))], 7.0))
    said = capsys.readouterr().out
    assert said.splitlines()[0].split("\t")[:2] == ["task", "strategy"]
    assert "tree-1: failed: no [bold]key" in said and "1.250x" in said and "1 of 2 runs" in said


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_no_figure_is_folded_away_or_broken(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout", screen)
    rows = [row(name, n, (1.0, 1.25)) for name in ("best", "tree") for n in (1, 2)]
    show(index_of(FILE, rows, 7.0))
    said = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue())
    assert said.startswith("all: task t, ") and said.count("1.250x") == 2
    assert "speed-up" in said and "evaluations" in said and "seconds" in said
    assert all(len(line.rstrip()) <= columns for line in said.splitlines()[1:8])
