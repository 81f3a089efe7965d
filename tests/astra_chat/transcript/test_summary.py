"""The JSON document of a run: versioned, and derived from the transcript alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.agents.turns import Kernel, Turn
from astra_chat.tools.types import Outcome
from astra_chat.transcript.reader import read
from astra_chat.transcript.summary import RunSummary, summarize
from tests.chat_samples import (
    BROKEN,
    KERNELS,
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    baseline_turns,
    build,
    coded,
    evaluation,
    plan,
    timed,
    write_transcript,
)

ROOT = Path(__file__).parents[3]


def summary(path: Path, turns: list[Turn] | None = None) -> RunSummary:
    return summarize(read(write_transcript(path, turns)).records)


def test_a_run_in_one_document(tmp_path: Path) -> None:
    found = summary(tmp_path / "t.jsonl")
    document = found.model_dump(mode="json")
    assert document["schema"] == "astra-chat/run/1"
    assert document["best"]["ratio"] == 1.9 and document["best"]["basis"] == "estimated"
    assert document["best"]["cases"][0]["baseline_us"] == 2.0
    assert document["rounds"][0]["attempts"][0]["verdict"] == "accepted"
    assert document["extra_cases"][0]["dims"] == {"rows": 7, "d": 12}
    assert document["ended"]["reason"] == "profiler"
    assert RunSummary.model_validate(document) == found


def test_a_failed_build_is_an_attempt_too(tmp_path: Path) -> None:
    turns = [
        *baseline_turns(),
        Turn("planner", plan()),
        *coded(BROKEN),
        Turn("fixer", Kernel(words="", source=VECTOR)),
        Turn("executor", build(VECTOR)),
    ]
    first, second = summary(tmp_path / "t.jsonl", turns).rounds[0].attempts
    assert first.verdict == "build_failed" and "inn" in first.words
    assert second.verdict is None and second.ratio is None, "the run ended before"


def test_nothing_faster(tmp_path: Path) -> None:
    found = summary(tmp_path / "t.jsonl", baseline_turns())
    assert found.best is None and found.baseline is not None


def one_round(source: str, outcome: Outcome) -> list[Turn]:
    return [
        Turn("planner", plan()),
        *coded(source),
        Turn("executor", evaluation(source, outcome)),
        Turn("profiler", analysis()),
    ]


def search() -> list[Turn]:
    """Wrong; 1.9 times as fast; 1.2 times; and a fourth round whose kernel does not build."""
    broken = Kernel(words="", source=BROKEN)
    return [
        *baseline_turns(),
        *one_round(KERNELS["wrong.cu"], WRONG_OUTCOME),
        *one_round(VECTOR, timed(1.9)),
        *one_round(KERNELS["scalar.cu"], timed(1.2)),
        Turn("planner", plan()),
        Turn("coder", broken),
        Turn("executor", build(BROKEN)),
    ]


def test_of_a_search(tmp_path: Path) -> None:
    found = summary(tmp_path / "t.jsonl", search())
    assert [one.best and one.best.ratio for one in found.rounds] == [None, 1.9, 1.9, 1.9]
    best = found.rounds[1].best
    assert best is not None and (best.low, best.high) == pytest.approx((1.71, 2.09), rel=0.006)
    tried = [attempt for one in found.rounds for attempt in one.attempts]
    assert [attempt.speed and attempt.speed.ratio for attempt in tried] == [None, 1.9, 1.2, None]
    assert [(a.verdict, a.failed) for a in tried] == [
        ("wrong", True),
        ("accepted", False),
        ("accepted", False),
        ("build_failed", True),
    ]
    assert found.best is not None and not found.best.confirmed


def test_what_came_of_the_plans_stands_beside_them(tmp_path: Path) -> None:
    found = summary(tmp_path / "t.jsonl", search())
    ratios = [one.prediction and one.prediction.actual_ratio for one in found.rounds]
    assert ratios[0] is None and ratios[1] == pytest.approx(1.9)
    assert found.predictions.plans == 4 and found.predictions.correct_kernels == 2
    assert found.spent.evaluations == 4 and found.spent.rejected


def test_the_winner_once_more_stands_apart(tmp_path: Path) -> None:
    again = evaluation(VECTOR, timed(1.8)).model_copy(update={"confirms": True})
    found = summary(tmp_path / "t.jsonl", [*search(), Turn("executor", again)])
    assert [one.best and one.best.ratio for one in found.rounds][1:] == [1.9] * 3, "of the search"
    assert found.best is not None and found.best.confirmed and found.best.ratio == 1.8


def test_of_a_recorded_run() -> None:
    found = summarize(read(ROOT / "transcripts/examples/silu_and_mul-h200.jsonl.xz").records)
    best = [one.best for one in found.rounds if one.best]
    ratios = [one.ratio for one in best]
    assert len(found.rounds) == 5 and ratios == sorted(ratios) and ratios[-1] > 1.3
    tried = [a.speed for one in found.rounds for a in one.attempts if a.speed]
    assert all(one.low <= one.ratio <= one.high for one in (*best, *tried))
    assert found.best is not None and found.best.confirmed
    assert found.best.candidate == best[-1].candidate
