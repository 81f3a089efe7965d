"""Rows of evaluations: where a candidate came from, what it cost, what was found."""

from __future__ import annotations

from pathlib import Path

from astra_chat.agents.turns import Kernel, Turn
from astra_chat.analysis.evaluation_rows import evaluation_rows, run_columns
from astra_chat.analysis.rows import EvaluationRow
from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.types import Timed
from astra_chat.transcript.events import Judged
from astra_chat.transcript.reader import read
from tests.chat_samples import BROKEN, baseline_turns, build, plan, write_transcript
from tests.recorded_files import EXAMPLES, VIRTUAL


def rows(path: Path) -> list[EvaluationRow]:
    return evaluation_rows(read(path))


def test_each_evaluation_is_a_row_with_its_plan() -> None:
    transcript = read(EXAMPLES / "h200" / "merge_state_v2.jsonl")
    judged = [r.event.evaluation for r in transcript.records if isinstance(r.event, Judged)]
    found = [row for row in evaluation_rows(transcript) if row.outcome != "build_failed"]
    assert [row.candidate for row in found] == [one.candidate for one in judged]
    for row, evaluation in zip(found, judged, strict=True):
        if isinstance(evaluation.outcome, Timed):
            assert row.ratio == evaluation.outcome.ratio
            assert len(row.cases) == len(evaluation.outcome.cases)
    baseline, *others = found
    assert (baseline.round, baseline.role, baseline.parent) == (0, "", "")
    assert "extern" in baseline.source and all(row.source and row.plan_title for row in others)


def test_a_fixers_kernel_is_a_change_of_the_one_before() -> None:
    found = {row.candidate: row for row in rows(EXAMPLES / "h200/merge_state_v2.jsonl")}
    fixed = found["ad659ef757b3"]
    assert (fixed.role, fixed.changed_from, fixed.attempt) == ("fixer", "a1bb21f904b0", 2)
    assert fixed.parent == "4d641df1fd70" and fixed.predicted_ratio == 1.05


def test_the_winner_is_marked_and_its_confirmation_is_a_row_of_its_own() -> None:
    best = [row for row in rows(VIRTUAL) if row.best]
    assert [row.confirms for row in best] == [False, True]
    assert all(row.confirmed and row.seed and row.judge_sha256 for row in best)
    assert best[1].basis == "estimated" and best[1].hidden_cases > 200 and not best[1].live
    assert best[1].cases[0].launches.count("grid") == 1


def test_a_kernel_that_does_not_build_is_a_row_too(tmp_path: Path) -> None:
    kernel = Kernel(words="", source=BROKEN)
    turns = [*baseline_turns(), Turn("planner", plan()), Turn("coder", kernel)]
    turns.append(Turn("executor", build(BROKEN)))
    row = evaluation_rows(read(write_transcript(tmp_path / "t.jsonl", turns)))[-1]
    assert (row.outcome, row.candidate, row.attempt) == ("build_failed", kernel.candidate, 1)
    assert row.ratio is None and row.registers is None and row.cases == ()


def test_a_run_is_live_where_its_replies_come_from_no_file(tmp_path: Path) -> None:
    def live(models: str) -> bool:
        path = tmp_path / "t.jsonl"
        text = read_recorded(VIRTUAL).decode()
        path.write_text(text.replace('"models":"scripted"', f'"models":"{models}"'))
        return bool(run_columns(read(path))["live"])

    assert [live(m) for m in ("openai:o4-mini,coder=scripted", "mailbox:box")] == [True, True]
    assert [live(m) for m in ("scripted", "replay:r.jsonl", "transcript:t.jsonl")] == [False] * 3
