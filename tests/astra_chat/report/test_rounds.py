"""Every candidate stands in its round, against what it was made of, with its results' turns."""

from __future__ import annotations

from pathlib import Path

from astra_chat.agents.turns import Approval, Kernel, Turn
from astra_chat.report.rounds import BASELINE, Round, rounds_of
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.reader import read
from astra_chat.transcript.recorded_task import baseline_text
from astra_chat.transcript.summary import summarize
from astra_chat.transcript.turns import turns_of
from tests.chat_samples import (
    BROKEN,
    SCALAR,
    VECTOR,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    evaluation,
    plan,
    timed,
)
from tests.recorded_files import EXAMPLES

ROOT = Path(__file__).parents[3]
FASTER = VECTOR.replace("127) / 128), 128", "255) / 256), 256")


def kernel(speaker: str, source: str) -> Turn:
    return Turn(speaker, Kernel(words="", source=source))  # type: ignore[arg-type]


def judged(source: str, ratio: float) -> list[Turn]:
    return [
        Turn("executor", build(source)),
        Turn("executor", evaluation(source, timed(ratio))),
    ]


def told(found: list[Round]) -> list[tuple[int, str, str, str, str]]:
    return [
        (one.number, c.name, c.speaker, c.against, c.verdict)
        for one in found
        for c in one.candidates
    ]


def test_parents_results_and_turns() -> None:
    turns = [
        *baseline_turns(),
        Turn("planner", plan()),
        kernel("coder", BROKEN),
        Turn("executor", build(BROKEN)),
        kernel("fixer", VECTOR),
        *judged(VECTOR, 1.5),
        Turn("profiler", analysis()),
        Turn("planner", plan()),
        kernel("coder", FASTER),
        *judged(FASTER, 1.9),
    ]
    broken, vector, faster = (candidate_id(text) for text in (BROKEN, VECTOR, FASTER))
    found = rounds_of(turns, SCALAR)
    assert told(found) == [
        (1, broken, "coder", BASELINE, "build_failed"),
        (1, vector, "fixer", broken, "accepted"),
        (2, faster, "coder", vector, "accepted"),
    ]
    first, second = found
    assert (first.turn, first.parent, second.parent) == (4, BASELINE, vector)
    one = first.candidates[1]
    assert (one.turn, one.build_turn, one.evaluation_turn) == (7, 8, 9)
    assert [number for number, _ in first.analyses] == [10]
    assert second.candidates[0].diff.counts == "+1 -1 lines"
    assert "inn" in first.candidates[0].result and "1.90x" in second.candidates[0].result


def test_what_the_human_does() -> None:
    name = candidate_id(VECTOR)
    asked = [
        *asking_turns(),
        Turn("planner", plan()),
        kernel("coder", VECTOR),
        Turn("executor", build(VECTOR)),
    ]
    edited = rounds_of([*asked, kernel("human", FASTER)], SCALAR)
    assert told(edited)[-1] == (1, candidate_id(FASTER), "human", name, "not judged")
    refusal = Approval(candidate=name, decision="reject", reason="too wide")
    refused = rounds_of([*asked, Turn("human", refusal)], SCALAR)[0]
    assert refused.candidates[0].rejected == "too wide"
    assert refused.notes[0][2] == f"reject {name}: too wide"


def test_of_a_recorded_run_the_summary_says_the_same() -> None:
    transcript = read(EXAMPLES / "h200/fused_add_rmsnorm.jsonl")
    found = rounds_of(turns_of(transcript.records), baseline_text(transcript))
    summary = summarize(transcript.records)
    assert [(r.number, r.plan.title) for r in found] == [
        (r.number, r.title) for r in summary.rounds
    ]
    for mine, other in zip(found, summary.rounds, strict=True):
        assert [(c.name, c.verdict) for c in mine.candidates] == [
            (a.candidate, a.verdict) for a in other.attempts
        ]
        assert (mine.parent if mine.parent != BASELINE else "") == other.parent
    assert summary.best is not None
    winner = [c for r in found for c in r.candidates if c.confirmation]
    assert [c.name for c in winner] == [summary.best.candidate]
