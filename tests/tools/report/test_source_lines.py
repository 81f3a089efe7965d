"""The costliest lines of a kernel, as a prompt shows them."""

from __future__ import annotations

from astra_chat.tools.report.results_text import metrics_text
from astra_chat.tools.report.source_lines import LONGEST_TEXT, MOST_LINES, source_rows
from astra_chat.tools.types import Profile, SourceLine
from tests.chat_samples import timed


def line(number: int, cycles: float, rounds: float = 0, *calls: int, text: str = "x") -> SourceLine:
    return SourceLine(line=number, calls=calls, text=text, chain_cycles=cycles, load_rounds=rounds)


def with_lines(*lines: SourceLine) -> Profile:
    return timed(1.5).profile.model_copy(update={"lines": lines})


def test_rows_stand_in_the_order_in_which_the_kernel_runs_them() -> None:
    one = with_lines(line(4, 30, 1, 12), line(14, 50), line(4, 20, 1, 16))
    other = with_lines(line(14, 60))
    assert source_rows([one, other]) == [
        ("chain_cycles of line 4, inlined at 12 `x`", ["30", "0"]),
        ("chain_cycles of line 14 `x`", ["50", "60"]),
        ("chain_cycles of line 4, inlined at 16 `x`", ["20", "0"]),
        ("load_rounds of line 4, inlined at 12 `x`", ["1", "0"]),
        ("load_rounds of line 4, inlined at 16 `x`", ["1", "0"]),
    ]


def test_where_a_load_is_waited_for_stands_beside_its_rounds() -> None:
    load = line(4, 30, 2).model_copy(update={"waited_at": "line 9, inlined at 20"})
    fewer = line(4, 30, 1).model_copy(update={"waited_at": "line 7"})
    _, (label, cells) = source_rows([with_lines(load), with_lines(fewer)])
    assert label == "load_rounds of line 4 `x`, waited for at line 9, inlined at 20"
    assert cells == ["2", "1"]


def test_of_many_lines_the_costliest_are_shown_and_long_ones_are_cut() -> None:
    many = with_lines(*(line(number, number, text="y" * 99) for number in range(1, 21)))
    *rows, rest = source_rows([many, with_lines(line(2, 5)), with_lines()])
    assert [cells for _, cells in rows] == [[str(n), "0", "-"] for n in range(21 - MOST_LINES, 21)]
    others = 20 - MOST_LINES
    assert rest == (
        f"chain_cycles of {others} other lines in lines 1 to {others}",
        [str(sum(range(1, others + 1))), "5", "-"],
    )
    assert rows[0][0].partition("`")[2] == "y" * (LONGEST_TEXT - 3) + "...`"


def test_the_other_lines_are_summed_by_region() -> None:
    """36 % of a chain in one row says nothing about where it is."""
    costly = [line(100 + number, 90) for number in range(MOST_LINES)]
    cheap = [line(number, 2) for number in (10, 11, 12, 60, 62, 300)]
    rows = source_rows([with_lines(*costly, *cheap)])[MOST_LINES:]
    assert rows == [
        ("chain_cycles of 3 other lines in lines 10 to 12", ["6"]),
        ("chain_cycles of 2 other lines in lines 60 to 62", ["4"]),
        ("chain_cycles of 1 other line in line 300", ["2"]),
    ]


def test_they_stand_among_the_metrics() -> None:
    one = timed(1.5)
    known = one.model_copy(update={"profile": with_lines(line(3, 7, text="a `b`\x1b[31m"))})
    (row,) = [row for row in metrics_text(known).splitlines() if row.startswith("chain_cycles of")]
    assert row.startswith("chain_cycles of line 3 `a") and row.endswith("| 7") and "\x1b" not in row
    assert "chain_cycles of" not in metrics_text(one)
