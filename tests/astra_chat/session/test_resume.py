"""What a run may continue from, and what it may change: one line about everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astra_chat.agents.run_state import state_of
from astra_chat.models.open_models import open_models
from astra_chat.session.api import run
from astra_chat.session.request import SessionOptions
from astra_chat.session.results import RunResult
from astra_chat.session.resume import branched, past_of, request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.spending.budget import Budget
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Outcome
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.recorded_task import task_of
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import DEVICE, VECTOR, FixedJudge, run_options, story, timed


def given(**options: Any) -> tuple[RunOptions, SessionOptions]:
    """Options as a user gives them, whichever model each belongs to."""
    session = {
        name: options.pop(name) for name in [*options] if name in SessionOptions.model_fields
    }
    return RunOptions.given(**options), SessionOptions(**session)


NO_WINNER: dict[str, Outcome] = {VECTOR: timed(1.0, "tie")}


@pytest.fixture
def path(task: Task, tmp_path: Path) -> Path:
    """A finished run of two rounds."""
    models = open_models("scripted", task)
    request = chat_request(task, tmp_path / "whole", models=models)
    return run_request(request, judge=FixedJudge(NO_WINNER)).transcript


def cut(path: Path, turns: int) -> Path:
    """The transcript of the run at `path` as it is when the run is killed after so many turns."""
    lines = path.read_text().splitlines(keepends=True)
    kept = [r.turn <= turns for r in read(path).records]
    killed = path.parent.parent / "killed" / path.name
    killed.parent.mkdir()
    killed.write_text("".join(line for line, keep in zip(lines, kept, strict=True) if keep))
    return killed


def branch(task: Task, path: Path, after: int | None, out: Path, **wishes: Any) -> RunResult:
    past = branched(path, after)
    request = request_on(past, task, *given(out=out, **wishes))
    return run_request(request, judge=FixedJudge(NO_WINNER), past=past)


@pytest.mark.parametrize(("rounds", "turns"), [(0, 3), (1, 14)])
def test_a_branch_comes_to_the_same_end_and_names_its_origin(
    task: Task, path: Path, tmp_path: Path, rounds: int, turns: int
) -> None:
    before = path.read_bytes()
    found = branch(task, path, rounds, tmp_path / "branch")
    assert story(found.transcript) == story(path)
    assert path.read_bytes() == before
    records = read(found.transcript).records
    origin = read(found.transcript).header.origin
    assert origin is not None and (origin.turn, origin.rounds) == (turns, rounds)
    assert origin.run == read(path).records[0].run != records[0].run
    assert {r.run for r in records} == {records[0].run}
    times = [r.t for r in records if r.turn]
    assert times == sorted(times), "its clock continues from the origin's"


def test_a_branch_of_a_killed_run_takes_its_finished_turns(
    task: Task, path: Path, tmp_path: Path
) -> None:
    found = branch(task, cut(path, 8), None, tmp_path / "branch")
    assert story(found.transcript) == story(path)


def test_a_branch_of_a_branch(task: Task, path: Path, tmp_path: Path) -> None:
    first = branch(task, path, 1, tmp_path / "first").transcript
    second = branch(task, first, 0, tmp_path / "second").transcript
    assert story(second) == story(path)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_run_of_one_agent_has_rounds_too(task: Task, tmp_path: Path, rounds: int) -> None:
    """In the strategy `single` nobody is called planner."""
    request = chat_request(task, tmp_path / "whole", options=run_options(strategy="single"))
    path = run_request(request, judge=FixedJudge(NO_WINNER)).transcript
    past = branched(path, rounds)
    assert len(past.state().rounds) == rounds
    whole = [(turn.speaker, turn.kind) for turn in turns_of(read(path).records)]
    assert [(turn.speaker, turn.kind) for turn in past.turns] == whole[: len(past.turns)]
    if rounds < 2:
        found = branch(task, path, rounds, tmp_path / "branch")
        assert story(found.transcript) == story(path)
    with pytest.raises(BadInput, match="--from 3:"):
        branched(path, 3)


@pytest.mark.parametrize("rounds", [-1, 3, 99])
def test_a_round_that_is_not_there(path: Path, rounds: int) -> None:
    with pytest.raises(BadInput, match=f"--from {rounds}:"):
        branched(path, rounds)


def test_a_round_that_is_not_finished(path: Path) -> None:
    with pytest.raises(BadInput, match=r"--from 1: .* has finished rounds 0"):
        branched(cut(path, 8), 1)


def test_a_finished_run_is_not_gone_on_with(task: Task, path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(BadInput, match="is finished: the planner has no further plan; --branch"):
        request_on(resumed(path), task, RunOptions())
    assert path.read_bytes() == before


def test_more_rounds_go_on(task: Task, path: Path, tmp_path: Path) -> None:
    short = branch(task, path, 0, tmp_path / "short", rounds=1).transcript
    assert len(state_of(turns_of(read(short).records)).rounds) == 1
    past = resumed(short)
    with pytest.raises(BadInput, match="all rounds are done; --rounds 2 continues"):
        request_on(past, task, RunOptions())
    request = request_on(past, task, RunOptions(rounds=5))
    run_request(request, judge=FixedJudge(NO_WINNER), past=past)
    assert story(short) == story(path)
    assert read(short).options.rounds == 5 and read(short).header.options.rounds == 1


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ({"cases": "bench"}, "--cases bench"),
        ({"tier": "paper"}, "--baseline paper"),
        ({"out": "elsewhere"}, "--out requires --branch"),
        ({"device": "virtual", "gpu": "h100"}, "figures from two devices cannot be compared"),
        ({"rounds": 0}, "--rounds 0"),
        ({"models": "oracle"}, "no backend 'oracle'"),
    ],
)
def test_what_may_not_change(task: Task, path: Path, wishes: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as caught:
        request_on(resumed(cut(path, 8)), task, *given(**wishes))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_what_was_recorded_is_taken(task: Task, path: Path) -> None:
    request = request_on(resumed(cut(path, 8)), task, RunOptions())
    assert request.device == DEVICE and request.models.name == "scripted"
    assert request.limits.rounds == 5 and request.folder == path.parent.parent / "killed"


def test_every_limit_can_be_switched_off(task: Task, tmp_path: Path) -> None:
    options = run_options(stop_at_percent=90.0, patience=1, budget="evaluations=2")
    request = chat_request(task, tmp_path / "out", options=options)
    path = run_request(request, judge=FixedJudge(NO_WINNER)).transcript
    kept = request_on(resumed(path), task, RunOptions(budget="evaluations=9"))
    assert (kept.limits.stop_at_percent, kept.limits.patience) == (90.0, 1)
    off = RunOptions.given(stop_at_percent=0, patience=0, budget="none", mutants=0)
    request = request_on(resumed(path), task, off)
    assert (request.limits.stop_at_percent, request.limits.patience) == (None, None)
    assert request.budget == Budget() and request.limits.mutants == 0
    result = run_request(request, judge=FixedJudge(NO_WINNER), past=resumed(path))
    options = result.summary.options
    assert (options.stop_at_percent, options.patience, options.budget) == (None, None, "")


def test_the_task_comes_out_of_the_transcript(task: Task, path: Path) -> None:
    with task_of(read(path), None) as found:
        assert found.id == task.id and found.folder != task.folder
        folder = found.folder
    assert not folder.exists()


def test_a_task_that_was_changed_is_refused(task: Task, path: Path) -> None:
    with task_of(read(path), task.folder) as found:
        assert found.folder == task.folder
    (task.folder / "baseline.cu").write_text("// another\n")
    with (
        pytest.raises(BadInput, match=r"different files of doubled: baseline\.cu"),
        task_of(read(path), task.folder),
    ):
        pass


def test_a_file_name_cannot_lead_out_of_the_folder(path: Path, tmp_path: Path) -> None:
    text = path.read_text().replace('"baseline.cu":', '"../escaped.cu":')
    path.write_text(text)
    with pytest.raises(BadInput, match="points outside its folder"), task_of(read(path), None):
        pass
    assert not list(tmp_path.rglob("escaped.cu"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a", "b", None), "give only one of them"),
        ((None, None, 1), "--from ROUND requires"),
        (("none.jsonl", None, None), "cannot read"),
        ((None, "none.jsonl", 2), "cannot read"),
    ],
)
def test_words_that_do_not_go_together(words: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        past_of(*words)


def test_nothing_said_is_a_new_run(path: Path) -> None:
    assert past_of(None, None, None) is None
    rewound = past_of(path, None, 1)
    assert rewound is not None and rewound.branched is not None, "rewinding never appends"


def test_two_at_once_do_not_write_one_transcript(task: Task, path: Path) -> None:
    killed = cut(path, 8)
    past = resumed(killed)
    judge = FixedJudge(NO_WINNER)
    refused: list[str] = []

    def another() -> None:
        if not refused:
            with pytest.raises(BadInput) as caught:
                run(task.folder, resume=killed)
            refused.append(str(caught.value))

    judge.before = another
    run_request(request_on(past, task, RunOptions()), judge=judge, past=past)
    assert len(refused) == 1 and "being written by another run" in refused[0]
    assert story(killed) == story(path)


def test_a_transcript_that_has_grown_since_is_not_cut(task: Task, path: Path) -> None:
    killed = cut(path, 8)
    stale = resumed(killed)
    request = request_on(stale, task, RunOptions())
    grown = "".join(path.read_text().splitlines(keepends=True)[: len(stale.transcript.records) + 1])
    killed.write_text(grown)
    with pytest.raises(BadInput, match="has grown"):
        run_request(request, judge=FixedJudge(NO_WINNER), past=stale)
    assert killed.read_text() == grown


def test_a_seed_given_again_makes_no_evaluations_seed_again(task: Task, path: Path) -> None:
    """The winner's confirmation would have the seed of the winner's first evaluation."""
    past = resumed(cut(path, 8))
    judged = sum(isinstance(turn.payload, Evaluation) for turn in past.turns)
    entropy = request_on(past, task, *given(seed="ab12")).entropy
    assert judged and entropy.root == Entropy("ab12").after(judged).root != Entropy("ab12").root
    assert request_on(past, task, *given(seed="ab12")).entropy.root == entropy.root
    fresh = request_on(branched(path, 1), task, *given(seed="ab12", out=path.parent)).entropy
    assert len({e.evaluation("x").text for e in (entropy, fresh, Entropy("ab12"))}) == 3
