"""Marks lie inside of the frame, higher where faster, and ticks are round figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_chat.report.course import Course, Failure, Point
from astra_chat.report.plot import MOST_TICKS, Plot, plot


def point(number: int, ratio: float, low: float, high: float, verdict: str = "accepted") -> Point:
    return Point(number, f"{number:012x}", ratio, low, high, verdict)


def drawn(rounds: int, *best: Point, confirmed: Point | None = None) -> Plot:
    tried = (point(1, 0.8, 0.7, 0.9, "slower"),)
    found = plot(Course(rounds, best, (*best, *tried), (Failure(1, "f" * 12, "wrong"),), confirmed))
    assert found is not None
    return found


def test_faster_is_higher_and_later_is_further_right() -> None:
    last = point(3, 1.9, 1.8, 2.0)
    found = drawn(3, point(1, 1.2, 1.1, 1.3), point(2, 1.2, 1.1, 1.3), last, confirmed=last)
    first, second, third, again = found.best
    assert first.x < second.x < third.x < again.x < found.right
    assert third.y < second.y == first.y < found.one < found.bottom
    assert first.high < first.y < first.low
    assert [mark.kind for mark in found.best] == ["best", "best", "best", "confirmed"]
    assert third.words == "best after round 3, 000000000003: 1.90x (1.80 to 2.00)"
    assert found.failed[0].x == first.x and found.failed[0].y == found.bottom
    assert [mark.kind for mark in found.tried] == ["accepted"] * 3 + ["slower"]


def test_the_line_starts_at_the_baseline_and_steps() -> None:
    found = drawn(2, point(2, 1.5, 1.4, 1.6))
    corners = [tuple(map(float, pair.split(","))) for pair in found.line.split()]
    assert corners[0] == (pytest.approx(found.left), pytest.approx(found.one, abs=0.1))
    assert len(corners) == 4 and corners[1][0] == corners[2][0]
    assert corners[-1][1] == pytest.approx(found.best[0].y, abs=0.1)


def test_a_run_without_rounds_has_no_plot() -> None:
    assert plot(Course(0, (), (), (), None)) is None


def test_nothing_gained() -> None:
    found = plot(Course(3, (), (), (), None))
    assert found is not None and not found.best
    assert found.ratios[0].label == "1x"


ratios = st.floats(1e-3, 1e4)


@given(st.integers(1, 2000), ratios, ratios, ratios)
def test_everything_stands_in_the_frame(rounds: int, a: float, b: float, c: float) -> None:
    low, ratio, high = sorted((a, b, c))
    found = drawn(rounds, point(rounds, ratio, low, high))
    for mark in (*found.best, *found.tried):
        assert found.left <= mark.x <= found.right
        assert found.top - 0.01 <= mark.high <= mark.y <= mark.low <= found.bottom + 0.01
    assert 2 <= len(found.ratios) <= MOST_TICKS and len(found.rounds) <= MOST_TICKS + 1
    assert all(float(tick.label.removesuffix("x")) >= 0 for tick in found.ratios)
