"""The course of a search: what was best when, what was tried, what failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel, Turn
from astra_chat.report.course import course
from astra_chat.tools.types import Outcome
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import thread
from tests.chat_samples import (
    BROKEN,
    KERNELS,
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    baseline_turns,
    build,
    evaluation,
    plan,
    timed,
)

ROOT = Path(__file__).parents[3]


def one_round(source: str, outcome: Outcome) -> list[Turn]:
    return [
        Turn("planner", plan()), Turn("coder", Kernel(words="", source=source)),
        Turn("executor", build(source)), Turn("executor", evaluation(source, outcome)),
        Turn("profiler", analysis()),
    ]  # fmt: skip


def search() -> list[Turn]:
    """Wrong; 1.9 times as fast; 1.2 times; and a fourth round whose kernel does not build."""
    broken = Kernel(words="", source=BROKEN)
    return [
        *baseline_turns(), *one_round(KERNELS["wrong.cu"], WRONG_OUTCOME),
        *one_round(VECTOR, timed(1.9)), *one_round(KERNELS["scalar.cu"], timed(1.2)),
        Turn("planner", plan()), Turn("coder", broken), Turn("executor", build(BROKEN)),
    ]  # fmt: skip


def test_of_a_search() -> None:
    found = course(search())
    assert found.rounds == 4
    assert [(p.round, p.ratio) for p in found.best] == [(2, 1.9), (3, 1.9), (4, 1.9)]
    assert [(p.round, p.ratio, p.verdict) for p in found.tried] == [
        (2, 1.9, "accepted"), (3, 1.2, "accepted"),
    ]  # fmt: skip
    assert [(f.round, f.verdict) for f in found.failed] == [(1, "wrong"), (4, "build_failed")]
    assert found.confirmed is None
    assert found.best[0].words == "1.90x (1.71 to 2.09)"
    assert found.best[0].low == pytest.approx(1.71)


def test_the_winner_once_more_stands_apart() -> None:
    again = evaluation(VECTOR, timed(1.8)).model_copy(update={"confirms": True})
    found = course([*search(), Turn("executor", again)])
    assert [p.ratio for p in found.best] == [1.9] * 3, "figures of the search stay"
    assert found.confirmed is not None
    assert (found.confirmed.round, found.confirmed.ratio) == (4, 1.8)


def test_before_any_plan_there_is_no_course() -> None:
    found = course(baseline_turns())
    assert (found.rounds, found.best, found.tried, found.failed) == (0, (), (), ())


def test_of_a_recorded_run() -> None:
    found = course(thread(read(ROOT / "transcripts/examples/silu_and_mul-h200.jsonl").records))
    ratios = [p.ratio for p in found.best]
    assert found.rounds == 5 and ratios == sorted(ratios) and ratios[-1] > 1.3
    assert all(p.low <= p.ratio <= p.high for p in (*found.best, *found.tried))
    assert found.confirmed is not None
    assert found.confirmed.candidate == found.best[-1].candidate
