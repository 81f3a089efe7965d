"""A whole scripted chat: order of turns, record, deviations, errors, interruption."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from pathlib import Path

import pytest

from astra_chat.agents.turns import Pass
from astra_chat.models.open_models import open_models
from astra_chat.session.results import RunResult
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.run_events import RunEvents, Silent
from astra_chat.session.session import run_request
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case, Outcome
from astra_chat.transcript.events import (
    Chosen,
    Contradiction,
    Deviation,
    Ended,
    Record,
    RejectedReply,
)
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput, MissingDependency
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import (
    KERNELS,
    SCALAR,
    VECTOR,
    WRONG_OUTCOME,
    FixedJudge,
    run_options,
    story,
    timed,
)


def run(task: Task, out: Path, judge: FixedJudge, events: RunEvents | None = None) -> RunResult:
    request = chat_request(task, out)
    return run_request(request, events, judge)


def speakers(path: Path) -> list[str]:
    return [turn.speaker for turn in turns_of(read(path).records)]


def test_the_root_is_told_when_the_run_has_ended(task: Task, tmp_path: Path) -> None:
    """A model that knew it could compute the hidden cases to come."""
    models = open_models("scripted", task)
    request = chat_request(task, tmp_path / "out", models=models, entropy=Entropy("5eed"))
    path = run_request(request, judge=FixedJudge()).transcript
    *before, last = path.read_text().splitlines()
    assert not [line for line in before if request.entropy.root in line]
    ended = read(path).ended
    assert ended is not None and ended.seed == request.entropy.root and ended.seed in last


STORY = [
    *("user", "tester", "executor"),
    *("planner", "coder", "executor"),
    *("fixer", "executor", "executor"),
    *("fixer", "executor", "executor", "profiler"),
    *("tester", "planner", "coder", "executor", "executor", "profiler"),
    *("planner", "executor"),
]
"""The last turn confirms the winner."""


def test_the_script_is_played_and_recorded(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge
) -> None:
    result = run(task, tmp_path / "out", fixed_judge)
    found = read(result.transcript)
    assert speakers(result.transcript) == STORY
    assert found.ended is not None and found.ended.reason == "no_plan"
    assert result.summary.best is not None and result.summary.best.ratio == 1.9
    assert result.summary.best.confirmed and "confirmed on fresh seeds" in found.ended.words
    assert (tmp_path / "out" / "best.cu").read_text() == VECTOR
    assert (tmp_path / "out" / "best" / "doubled.so").is_file()
    assert not [
        r for r in found.records if isinstance(r.event, Deviation | RejectedReply | Contradiction)
    ]


def test_one_speaker_is_chosen_by_the_model(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge
) -> None:
    records = read(run(task, tmp_path / "out", fixed_judge).transcript).records
    decisions = [r.event.decision for r in records if isinstance(r.event, Chosen)]
    assert [d.speaker for d in decisions if d.by == "model"] == ["tester"]
    assert len(decisions) == len(STORY) - 1, "everyone but the user was chosen"
    assert [d.speaker for d in decisions] == STORY[1:]


def test_the_testers_cases_are_really_run(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge
) -> None:
    run(task, tmp_path / "out", fixed_judge)
    first = Case(dims={"rows": 7, "d": 12}, dtype="float32")
    second = Case(dims={"rows": 129, "d": 4}, dtype="float32", values="large")
    assert fixed_judge.evaluated[0] == (SCALAR, (first,)), "the baseline opens"
    assert fixed_judge.evaluated[-1] == (VECTOR, (first, second))


def test_two_runs_say_the_same(task: Task, tmp_path: Path) -> None:
    first, second = (
        read(run(task, tmp_path / name, FixedJudge()).transcript).records for name in ("a", "b")
    )
    said = [[r.event.model_dump_json() for r in records[1:]] for records in (first, second)]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("changed", "deviations", "best", "said"),
    [
        (
            {KERNELS["vector.cu"]: WRONG_OUTCOME},
            [("accepted", "wrong")],
            None,
            "the script has no further repair",
        ),
        ({KERNELS["vector.cu"]: timed(0.8, "slower")}, [("accepted", "slower")], None, ""),
        (
            {KERNELS["wrong.cu"]: timed(1.2)},
            [("wrong", "accepted")],
            1.9,
            "",
        ),
    ],
)
def test_another_outcome_than_scripted_is_said_and_the_run_goes_on(
    task: Task,
    tmp_path: Path,
    changed: dict[str, Outcome],
    deviations: list[tuple[str, str]],
    best: float | None,
    said: str,
) -> None:
    result = run(task, tmp_path / "out", FixedJudge(changed))
    found = [(d.expected, d.found) for d in result.summary.deviations]
    assert found == deviations
    assert (result.summary.best.ratio if result.summary.best else None) == best
    assert result.summary.ended is not None and result.summary.ended.reason == "no_plan"
    words = [
        t.payload.words
        for t in turns_of(read(result.transcript).records)
        if isinstance(t.payload, Pass)
    ]
    assert any(said in word for word in words)
    if best is None:
        assert "no candidate was faster" in result.summary.ended.words.lower()
        assert not (tmp_path / "out" / "best.cu").exists()


def test_a_build_that_should_have_failed(task: Task, tmp_path: Path) -> None:
    (task.folder / "script" / "broken.cu").write_text(KERNELS["scalar.cu"])
    result = run(load_task(task.folder), tmp_path / "out", FixedJudge())
    assert [(d.expected, d.found) for d in result.summary.deviations] == [("build_failed", "built")]


def test_a_baseline_that_is_wrong_ends_the_run(task: Task, tmp_path: Path) -> None:
    result = run(task, tmp_path / "out", FixedJudge({SCALAR: WRONG_OUTCOME}))
    ended = result.summary.ended
    assert ended is not None and ended.reason == "baseline_failed" and "wrong on" in ended.words


def test_illegal_cases_of_a_script_go_back_and_end_in_a_pass(task: Task, tmp_path: Path) -> None:
    script = task.folder / "script" / "script.toml"
    script.write_text(script.read_text().replace("rows = 7, d = 12", "rows = 7, d = 13"))
    result = run(load_task(task.folder), tmp_path / "out", FixedJudge())
    reasons = [
        r.event.reason
        for r in read(result.transcript).records
        if isinstance(r.event, RejectedReply)
    ]
    assert len(reasons) == 3 and all("d = 13" in reason for reason in reasons)
    assert result.summary.best is not None, "the run continues without them"


def test_a_scripts_wrong_anchor_is_doubted_and_its_plan_stands(task: Task, tmp_path: Path) -> None:
    script = task.folder / "script" / "script.toml"
    line = 'anchor = "out[i] = 2.0f * in[i];"'
    script.write_text(script.read_text().replace(line, 'anchor = "out[i] = 3.0f * in[i];"', 1))
    result = run(load_task(task.folder), tmp_path / "out", FixedJudge())
    records = read(result.transcript).records
    doubts = [r.event for r in records if isinstance(r.event, Contradiction)]
    assert [(d.speaker, d.stands) for d in doubts] == [("planner", False), ("planner", True)]
    assert all("`out[i] = 3.0f * in[i];` is not in" in d.reason for d in doubts)
    assert all("`out[i] = 2.0f * in[i];`" in d.reason for d in doubts), (
        "it says what would be right"
    )
    assert speakers(result.transcript) == STORY and result.summary.best is not None
    spent = result.summary.spent
    assert spent is not None and spent.contradictions == 1
    assert ("reply contradicts the facts", 1) in [(one.reason, one.times) for one in spent.rejected]
    assert result.summary.contradictions == (doubts[1],)


def test_the_machines_fault_is_recorded_then_raised(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge
) -> None:
    def lack() -> None:
        raise MissingDependency("the compiler went away")

    fixed_judge.before = lack
    with pytest.raises(MissingDependency, match="the compiler went away") as caught:
        run(task, tmp_path / "out", fixed_judge)
    assert any("transcript.jsonl" in note for note in caught.value.__notes__)
    ended = read(tmp_path / "out").ended
    assert ended is not None and ended.reason == "error"
    assert ended.error == "MissingDependency: the compiler went away"


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_record_that_cannot_be_shown_stops_the_run(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge, turn: int
) -> None:
    """Once is enough, at whichever turn: the team's own end does not hide it."""
    left = [OSError("the terminal went away")]

    class Terminal(Silent):
        def record(self, record: Record) -> None:
            if record.turn == turn and left:
                raise left.pop()

    request = chat_request(task, tmp_path / "out")
    with pytest.raises(OSError, match="terminal") as caught:
        run_request(request, Terminal(), judge=fixed_judge)
    assert len(fixed_judge.evaluated) <= 2, "nobody continues in the background"
    path = tmp_path / "out" / "transcript.jsonl"
    assert caught.value.__notes__ == [f"resume with: astra-chat run --resume {path}"]
    ended = read(path).ended
    assert ended is not None and ended.reason == "error" and "terminal" in ended.error


def test_a_run_that_breaks_off_leaves_the_best_so_far(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge
) -> None:
    def lack() -> None:
        if len(fixed_judge.evaluated) == 4:
            raise MissingDependency("the compiler went away")

    fixed_judge.before = lack
    with pytest.raises(MissingDependency):
        run(task, tmp_path / "out", fixed_judge)
    ended = read(tmp_path / "out").ended
    assert ended is not None and ended.best is not None
    assert "Its source is in best.cu." in ended.words
    assert (tmp_path / "out" / "best.cu").read_text() == VECTOR


class Noticing(Silent):
    """Knows when the run has told the user something."""

    def __init__(self) -> None:
        self.noticed = threading.Event()

    def notice(self, text: str) -> None:
        self.noticed.set()


def stop_by(judge: FixedJudge, *numbers: signal.Signals) -> Noticing:
    """Send signals while the second kernel is judged, each once the one before was taken."""
    events = Noticing()

    def before() -> None:
        if len(judge.evaluated) == 1:
            for number in numbers:
                signal.pthread_kill(threading.main_thread().ident or 0, number)
                if number == signal.SIGINT:
                    assert events.noticed.wait(60), "Ctrl-C was not taken"
            if numbers != (signal.SIGINT,):
                assert judge.cancelled.wait(60), "the judge was not stopped"

    judge.before = before
    return events


@pytest.mark.parametrize(
    ("numbers", "turns"),
    [
        ((signal.SIGINT,), 9),
        ((signal.SIGINT, signal.SIGINT), 8),
        ((signal.SIGTERM,), 8),
    ],
)
def test_an_interrupted_run_says_so_and_goes_on_to_the_identical_end(
    task: Task, tmp_path: Path, numbers: tuple[signal.Signals, ...], turns: int
) -> None:
    """Ctrl-C once finishes the turn; twice, or SIGTERM, stops at once."""
    run(task, tmp_path / "whole", FixedJudge())
    judge = FixedJudge()
    events = stop_by(judge, *numbers)
    result = run(task, tmp_path / "out", judge, events)
    found = read(result.transcript)
    assert found.ended is not None and found.ended.reason == "interrupted"
    assert speakers(result.transcript) == STORY[:turns], "the turns that were finished"
    before = result.transcript.read_bytes()
    go_on(task, result.transcript, FixedJudge())
    assert result.transcript.read_bytes().startswith(before), "appended, nothing else"
    assert story(result.transcript) == story(tmp_path / "whole")


def go_on(task: Task, path: Path, judge: FixedJudge) -> RunResult:
    past = resumed(path)
    return run_request(request_on(past, task, RunOptions()), judge=judge, past=past)


def test_an_existing_transcript_is_not_touched(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge
) -> None:
    first = run(task, tmp_path / "out", fixed_judge).transcript.read_bytes()
    with pytest.raises(BadInput, match="not overwritten"):
        run(task, tmp_path / "out", FixedJudge())
    assert (tmp_path / "out" / "transcript.jsonl").read_bytes() == first


def test_from_within_an_event_loop(task: Task, tmp_path: Path, fixed_judge: FixedJudge) -> None:
    async def notebook() -> RunResult:
        return run(task, tmp_path / "out", fixed_judge)

    assert asyncio.run(notebook()).summary.best is not None


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_in_a_notebook(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge, times: int
) -> None:
    events = stop_by(fixed_judge, *[signal.SIGINT] * times)

    async def cell() -> RunResult:
        return run(task, tmp_path / "out", fixed_judge, events)

    loop = asyncio.new_event_loop()
    result = loop.run_until_complete(cell())
    loop.close()
    assert result.summary.ended is not None and result.summary.ended.reason == "interrupted"
    assert len(speakers(result.transcript)) == (9 if times == 1 else 8)


@pytest.mark.parametrize("name", ["best.cu", "best"])
def test_files_of_an_earlier_run_are_not_touched(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge, name: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("precious")
    with pytest.raises(BadInput, match="not overwritten"):
        run(task, tmp_path / "out", fixed_judge)
    assert (tmp_path / "out" / name).read_text() == "precious"
    assert not (tmp_path / "out" / "transcript.jsonl").exists()


def test_every_line_is_json_of_ours(task: Task, tmp_path: Path, fixed_judge: FixedJudge) -> None:
    result = run(task, tmp_path / "out", fixed_judge)
    lines = [json.loads(line) for line in result.transcript.read_text().splitlines()]
    assert lines[0]["event"]["kind"] == "header"
    assert isinstance(read(result.transcript).records[-1].event, Ended)
    text = result.transcript.read_text()
    assert "StructuredMessage" not in text and str(tmp_path) not in text
    assert text.count("float4 v = in[i]") == 1, "task file and candidate are one text, stored once"


def test_rounds_limit_the_run(task: Task, tmp_path: Path, fixed_judge: FixedJudge) -> None:
    request = chat_request(task, tmp_path / "out", options=run_options(rounds=1))
    result = run_request(request, judge=fixed_judge)
    assert len(result.summary.rounds) == 1
    assert result.summary.ended is not None and result.summary.ended.reason == "rounds"


@pytest.mark.parametrize("words", ["paper", "tree", "beam:2x2", "single"])
def test_every_strategy_holds_a_whole_chat(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge, words: str
) -> None:
    request = chat_request(task, tmp_path / "out", options=run_options(strategy=words))
    result = run_request(request, judge=fixed_judge)
    assert result.summary.best is not None and result.summary.best.confirmed
    assert str(result.summary.options.strategy) == words
    said = speakers(result.transcript)
    assert ("single" in said) == (words == "single") == ("profiler" not in said)
