"""A winner that its confirmation refuses: repaired, confirmed, and named where it is lost."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import pytest

from astra_chat.display.console import console
from astra_chat.display.run_board import board
from astra_chat.display.run_view import View
from astra_chat.models.open_models import open_models
from astra_chat.replay.prompts import prompts
from astra_chat.replay.rerun import rerun
from astra_chat.session.results import RunResult
from astra_chat.session.resume import at_end, request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case, candidate_id
from astra_chat.transcript.events import Ended
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import state_of, turns_of
from astra_chat.verify.recorded import Run
from astra_chat.verify.run_claims import run_claims
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import (
    VECTOR,
    WRONG_OUTCOME,
    FixedJudge,
    check_record,
    evaluation,
    run_options,
    story,
    timed,
)

REPAIRED = VECTOR.replace("kernel<<<", "// The last rows, too.\n  kernel<<<")
DRAWN = Case(dims={"rows": 2, "d": 4}, dtype="float32", values="special")
REFUSES = evaluation(VECTOR, WRONG_OUTCOME.model_copy(update={"case": DRAWN})).model_copy(
    update={"confirms": True, "check": check_record(failed=DRAWN)}
)
FIXER = """[[round.fixer]]
file = "repaired.cu"
words = "The case that was drawn passes now."
expects = "accepted"
"""
REPAIR = ("fixer", "executor", "executor", "executor")
"""The repair of a winner after its confirmation: kernel, build, run, confirmation."""


class Refusing(FixedJudge):
    """Refuses the winner in its confirmation, on a case that it drew."""

    def __init__(self) -> None:
        super().__init__({REPAIRED: timed(1.7, "accepted", 25.0)})

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        found = super().evaluate(source, extra_cases, fresh_seeds=fresh_seeds)
        return REFUSES if fresh_seeds and source == VECTOR else found


@pytest.fixture
def repairing(task_folder: Path) -> Task:
    """The task, its script with a repair of the winner."""
    script = task_folder / "script" / "script.toml"
    before, mark, after = script.read_text().rpartition("[round.profiler]")
    script.write_text(before + FIXER + mark + after)
    (task_folder / "script" / "repaired.cu").write_text(REPAIRED)
    return load_task(task_folder)


def run(task: Task, out: Path, judge: FixedJudge) -> RunResult:
    models = open_models("scripted", task)
    request = chat_request(task, out, models=models)
    return run_request(request, judge=judge)


def speakers(path: Path) -> tuple[str, ...]:
    return tuple(turn.speaker for turn in turns_of(read(path).records))


def end_of(path: Path) -> Ended:
    ended = read(path).ended
    assert ended is not None
    return ended


def holds(path: Path) -> bool:
    """Whether what the transcript says of winner, confirmation and ledger is so."""
    return all(one.status == "stands" for one in run_claims(Run(read(path), None)))


def test_it_is_repaired_and_the_repair_is_confirmed(repairing: Task, tmp_path: Path) -> None:
    judge = Refusing()
    result = run(repairing, tmp_path / "out", judge)
    assert speakers(result.transcript)[-5:] == ("executor", *REPAIR)
    assert judge.evaluated[-1][0] == REPAIRED and DRAWN in judge.evaluated[-1][1]
    best, ended = result.summary.best, end_of(result.transcript)
    assert best is not None and best.confirmed and best.candidate == candidate_id(REPAIRED)
    assert ended.reason == "no_plan", "what ended the search is what the end says"
    lost = candidate_id(VECTOR)
    assert f"Candidate {lost} (estimated 1.90x the baseline's speed in the search) failed" in (
        ended.words
    )
    assert DRAWN.named in ended.words and f"refused-{lost}.cu" in ended.words
    assert (tmp_path / "out" / f"refused-{lost}.cu").read_text() == VECTOR
    assert (tmp_path / "out" / "best.cu").read_text() == REPAIRED
    assert holds(result.transcript)


def test_lost_for_good_it_is_named_with_its_figure_its_case_and_its_file(
    task: Task, tmp_path: Path
) -> None:
    """The script has no repair: the fixer passes, and nothing else was faster."""
    result = run(task, tmp_path / "out", Refusing())
    words = end_of(result.transcript).words
    assert result.summary.best is None and "not faster" not in words
    assert "estimated 1.90x" in words and DRAWN.named in words
    assert "1 that did not pass confirmation" in words and "1 that did not build" in words
    assert (tmp_path / "out" / f"refused-{candidate_id(VECTOR)}.cu").read_text() == VECTOR


def test_the_fixer_gets_the_winner_its_plan_and_the_case(repairing: Task, tmp_path: Path) -> None:
    transcript = read(run(repairing, tmp_path / "out", Refusing()).transcript)
    asked = [one for one in prompts(transcript) if one.role == "fixer"][-1]
    assert "The plan: Vectors of four" in asked.user and DRAWN.named in asked.user
    assert "float4 v = in[i];" in asked.user and "fastest of the run: keep" in asked.user


@pytest.mark.parametrize("left", [5, 4, 3, 2, 1])
def test_broken_off_anywhere_in_a_repair_it_goes_on_to_the_same_end(
    repairing: Task, tmp_path: Path, left: int
) -> None:
    whole = run(repairing, tmp_path / "whole", Refusing()).transcript
    turns = len(speakers(whole)) - left
    path = tmp_path / "part" / "transcript.jsonl"
    path.parent.mkdir()
    records = zip(whole.read_text().splitlines(keepends=True), read(whole).records, strict=True)
    path.write_text("".join(line for line, record in records if record.turn <= turns))
    past = resumed(path)
    run_request(request_on(past, repairing), judge=Refusing(), past=past)
    assert story(path) == story(whole)


def test_the_whole_chat_is_held_again_from_its_transcript(repairing: Task, tmp_path: Path) -> None:
    first = run(repairing, tmp_path / "first", Refusing()).transcript
    again = rerun(read(first), out=tmp_path / "again", judge=Refusing())
    assert speakers(again.transcript) == speakers(first)
    assert at_end(resumed(first), read(first).options.limits) is not None


def test_a_transcript_from_before_repairs_keeps_its_order(task: Task, tmp_path: Path) -> None:
    """Its options do not name them, and its winner's refusal ended the run."""
    models = open_models("scripted", task)
    options = run_options(winner_repairs=0)
    folder = tmp_path / "old"
    request = chat_request(task, folder, models=models, options=options)
    path = run_request(request, judge=Refusing()).transcript
    path.write_text(path.read_text().replace('"winner_repairs":0,', ""))
    old = read(path)
    assert old.options.winner_repairs == 0 and speakers(path)[-1] == "executor"
    assert at_end(resumed(path), old.options.limits) is not None
    assert holds(path)


def test_a_reader_sees_refusal_repair_and_confirmation(repairing: Task, tmp_path: Path) -> None:
    records = read(run(repairing, tmp_path / "out", Refusing()).transcript).records
    for brief in (False, True):
        out = io.StringIO()
        view = View(console(out), brief=brief)
        for record in records:
            view.show(record)
        shown = " ".join(out.getvalue().split())
        assert "the winner (estimated 1.90x the baseline's speed) failed its" in shown
        assert "failed its confirmation" in shown and DRAWN.named in shown
    board_out = io.StringIO()
    console(board_out).print(board(state_of(records), 20))
    rows = board_out.getvalue().splitlines()
    assert any("confirmation failed" in row and candidate_id(VECTOR) in row for row in rows)
    assert any("1.70x accepted, best" in row and "repair of" in row for row in rows)
