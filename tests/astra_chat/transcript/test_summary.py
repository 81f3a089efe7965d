"""The JSON document of a run: versioned, and derived from the transcript alone."""

from __future__ import annotations

from pathlib import Path

from astra_chat.agents.turns import Kernel, Turn
from astra_chat.transcript.reader import read
from astra_chat.transcript.summary import RunSummary, summarize
from tests.chat_samples import BROKEN, VECTOR, baseline_turns, build, plan, write_transcript


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
        Turn("coder", Kernel(words="", source=BROKEN)),
        Turn("executor", build(BROKEN)),
        Turn("fixer", Kernel(words="", source=VECTOR)),
        Turn("executor", build(VECTOR)),
    ]
    first, second = summary(tmp_path / "t.jsonl", turns).rounds[0].attempts
    assert first.verdict == "build_failed" and "inn" in first.words
    assert second.verdict is None and second.ratio is None, "the run ended before"


def test_nothing_faster(tmp_path: Path) -> None:
    found = summary(tmp_path / "t.jsonl", baseline_turns())
    assert found.best is None and found.baseline is not None
