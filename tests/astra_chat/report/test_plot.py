"""Marks lie inside of the frame, higher where faster, and ticks are round figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_chat.report.plot import MAX_TICKS, Plot, plot
from astra_chat.transcript.reader import read
from astra_chat.transcript.summary import (
    AttemptSummary,
    RoundSummary,
    Speed,
    Timing,
    summarize,
)

ROOT = Path(__file__).parents[3]


EMPTY = summarize(read(ROOT / "transcripts/examples/silu_and_mul-h200.jsonl").records).model_copy(
    update={"rounds": (), "best": None}
)


def speed(number: int, ratio: float, low: float, high: float) -> Speed:
    return Speed(candidate=f"{number:012x}", ratio=ratio, low=low, high=high)


def attempt(verdict: str, made: Speed | None, failed: bool = False) -> AttemptSummary:
    return AttemptSummary(
        speaker="coder", candidate=made.candidate if made else "f" * 12, verdict=verdict, words="",
        ratio=made.ratio if made else None, speed=made, failed=failed,
    )  # fmt: skip


def a_round(number: int, best: Speed | None, *attempts: AttemptSummary) -> RoundSummary:
    return RoundSummary(
        number=number, title="", predicted_ratio=1.0, attempts=attempts, best=best
    )  # fmt: skip


def drawn(rounds: int, best: dict[int, Speed], confirmed: Timing | None = None) -> Plot:
    """The best by round; each was tried in its round, in the first two more."""
    slower, wrong = attempt("slower", speed(1, 0.8, 0.7, 0.9)), attempt("wrong", None, failed=True)
    every = tuple(
        a_round(
            n, best.get(n), *([attempt("accepted", best[n])] if n in best else []),
            *([slower, wrong] if n == 1 else []),
        )
        for n in range(1, rounds + 1)
    )  # fmt: skip
    found = plot(EMPTY.model_copy(update={"rounds": every, "best": confirmed}))
    assert found is not None
    return found


def test_faster_is_higher_and_later_is_further_right() -> None:
    last = speed(3, 1.9, 1.8, 2.0)
    again = Timing(**dict(last), confirmed=True, basis="measured", cases=())
    best = {1: speed(1, 1.2, 1.1, 1.3), 2: speed(2, 1.2, 1.1, 1.3), 3: last}
    found = drawn(3, best, confirmed=again)
    first, second, third, confirmed = found.best
    assert first.x < second.x < third.x < confirmed.x < found.right
    assert third.y < second.y == first.y < found.one < found.bottom
    assert first.high < first.y < first.low
    assert [mark.kind for mark in found.best] == ["best", "best", "best", "confirmed"]
    assert third.words == "best after round 3, 000000000003: 1.90x (1.80 to 2.00)"
    assert found.failed[0].x == first.x and found.failed[0].y == found.bottom
    assert [mark.kind for mark in found.tried] == ["accepted", "slower", "accepted", "accepted"]


def test_the_line_starts_at_the_baseline_and_steps() -> None:
    found = drawn(2, {2: speed(2, 1.5, 1.4, 1.6)})
    corners = [tuple(map(float, pair.split(","))) for pair in found.line.split()]
    assert corners[0] == (pytest.approx(found.left), pytest.approx(found.one, abs=0.1))
    assert len(corners) == 4 and corners[1][0] == corners[2][0]
    assert corners[-1][1] == pytest.approx(found.best[0].y, abs=0.1)


def test_a_run_without_rounds_has_no_plot() -> None:
    assert plot(EMPTY) is None


def test_nothing_gained() -> None:
    rounds = tuple(a_round(n, None) for n in (1, 2, 3))
    found = plot(EMPTY.model_copy(update={"rounds": rounds}))
    assert found is not None and not found.best
    assert found.ratios[0].label == "1x"


ratios = st.floats(1e-3, 1e4)


@given(st.integers(1, 2000), ratios, ratios, ratios)
def test_everything_stands_in_the_frame(rounds: int, a: float, b: float, c: float) -> None:
    low, ratio, high = sorted((a, b, c))
    found = drawn(rounds, {rounds: speed(rounds, ratio, low, high)})
    for mark in (*found.best, *found.tried):
        assert found.left <= mark.x <= found.right
        assert found.top - 0.01 <= mark.high <= mark.y <= mark.low <= found.bottom + 0.01
    assert 2 <= len(found.ratios) <= MAX_TICKS and len(found.rounds) <= MAX_TICKS + 1
    assert all(float(tick.label.removesuffix("x")) >= 0 for tick in found.ratios)
