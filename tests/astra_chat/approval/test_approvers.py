"""Whole chats in which a human decides: by script, at a terminal, in an editor, or later."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.agents.approval import question
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Approval, Kernel, Turn
from astra_chat.approval.approvers import (
    NoTerminal,
    RecordedDecisions,
    Scripted,
    Terminal,
    approver_for,
    edited,
)
from astra_chat.approval.pending import record, waiting
from astra_chat.cli.exit_codes import WAITING
from astra_chat.models.open_models import open_models
from astra_chat.session.request import SessionOptions
from astra_chat.session.results import RunResult
from astra_chat.session.resume import branched, request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case, Unsafe, candidate_id
from astra_chat.transcript.options import RunOptions
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import (
    CASE,
    KERNELS,
    SCALAR,
    VECTOR,
    FixedJudge,
    asking_turns,
    coded,
    evaluation,
    plan,
    story,
    timed,
)

EDITED = VECTOR.replace("128", "256")
OTHER_CASE = CASE.model_copy(update={"dtype": "float16"})


def decisions(folder: Path, *answers: str) -> str:
    """A file of decisions: "approve", "reject because", "edit file.cu"."""
    text = ""
    for answer in answers:
        word, _, rest = answer.partition(" ")
        field = "file" if word == "edit" else "reason"
        text += f'[[decision]]\nanswer = "{word}"\n{field} = "{rest}"\n'
    path = folder / "decisions.toml"
    path.write_text(text)
    return str(path)


def run(task: Task, out: Path, approver: str | None, judge: FixedJudge | None = None) -> RunResult:
    models = open_models("scripted", task)
    request = chat_request(task, out, models=models, approver=approver)
    return run_request(request, judge=judge or judge_of_edits())


def go_on(task: Task, path: Path, approver: str | None = None) -> RunResult:
    past = resumed(path)
    request = request_on(past, task, session=SessionOptions(approver=approver))
    return run_request(request, judge=judge_of_edits(), past=past)


def judge_of_edits() -> FixedJudge:
    return FixedJudge({EDITED: timed(2.5)})


def human(path: Path) -> list[Turn]:
    return [turn for turn in turns_of(read(path).records) if turn.speaker == "human"]


def speakers(path: Path) -> list[str]:
    return [turn.speaker for turn in turns_of(read(path).records)]


def test_all_is_approved(task: Task, tmp_path: Path) -> None:
    judge = judge_of_edits()
    spec = decisions(tmp_path, "approve", "approve", "approve", "approve")
    result = run(task, tmp_path / "out", spec, judge)
    assert [t.payload.decision for t in human(result.transcript)] == ["approve"] * 4  # type: ignore[union-attr]
    assert result.summary.best is not None and result.summary.best.ratio == 1.9
    assert len(judge.evaluated) == 5, "the baseline, three candidates that build, the winner again"


def test_nothing_runs_before_it_is_approved(task: Task, tmp_path: Path) -> None:
    judge = judge_of_edits()
    result = run(task, tmp_path / "out", "detached", judge)
    assert [source for source, _ in judge.evaluated] == [SCALAR]
    ended = result.summary.ended
    assert ended is not None and ended.reason == "waiting"
    name = candidate_id(KERNELS["wrong.cu"])
    assert ended.words.startswith(f"Waiting for a decision on whether candidate {name} may be run")


def test_a_rejection_goes_to_the_planner_and_nothing_of_it_runs(task: Task, tmp_path: Path) -> None:
    judge = judge_of_edits()
    spec = decisions(tmp_path, "reject too bold", "approve", "reject not this week")
    result = run(task, tmp_path / "out", spec, judge)
    assert [source for source, _ in judge.evaluated] == [SCALAR, VECTOR, VECTOR], "and confirmed"
    turns = speakers(result.transcript)
    assert [turns[i + 1] for i, who in enumerate(turns) if who == "human"] == [
        "planner",
        "executor",
        "planner",
    ]
    assert result.summary.best is None, "the rejected winner is no winner"
    assert not (tmp_path / "out" / "best.cu").exists()
    attempts = [attempt for one in result.summary.rounds for attempt in one.attempts]
    assert [a.rejected for a in attempts] == [None, "too bold", "not this week"]


def test_an_edit_is_the_new_candidate_and_the_humans(task: Task, tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(EDITED)
    judge = judge_of_edits()
    spec = decisions(tmp_path, "reject no", "edit mine.cu", "approve_all")
    result = run(task, tmp_path / "out", spec, judge)
    assert [source for source, _ in judge.evaluated] == [SCALAR, EDITED, EDITED]
    proposed = human(result.transcript)[1].payload
    assert isinstance(proposed, Kernel) and proposed.source == EDITED
    assert (tmp_path / "out" / "best.cu").read_text() == EDITED
    attempts = result.summary.rounds[1].attempts
    assert [(a.speaker, a.verdict) for a in attempts] == [("coder", None), ("human", "accepted")]


def test_an_edit_instead_of_an_acceptance_is_judged_and_asked_about(
    task: Task, tmp_path: Path
) -> None:
    (tmp_path / "mine.cu").write_text(EDITED)
    judge = judge_of_edits()
    spec = decisions(tmp_path, "approve", "approve", "approve", "edit mine.cu", "reject no")
    result = run(task, tmp_path / "out", spec, judge)
    found = [source for source, _ in judge.evaluated]
    assert found[-4:] == [VECTOR, VECTOR, EDITED, EDITED], "each is confirmed before it is asked"
    last = human(result.transcript)[-1].payload
    assert isinstance(last, Approval) and last.candidate == candidate_id(EDITED)
    assert result.summary.best is None and not (tmp_path / "out" / "best.cu").exists()


class Unsteady(FixedJudge):
    """What it finds faster is unsafe under the sanitizers."""

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        found = super().evaluate(source, extra_cases, fresh_seeds=fresh_seeds)
        unsafe = Unsafe(case=CASE, what="racecheck: a race", where="kernel, k.cu:7")
        return found.model_copy(update={"outcome": unsafe}) if fresh_seeds else found


def test_what_the_sanitizers_refuse_is_never_asked_about(task: Task, tmp_path: Path) -> None:
    spec = decisions(tmp_path, "approve", "approve", "approve", "approve")
    result = run(task, tmp_path / "out", spec, Unsteady())
    assert len(human(result.transcript)) == 3, "to be run, never to be accepted"
    turns = turns_of(read(result.transcript).records)
    place = next(
        i
        for i, turn in enumerate(turns)
        if isinstance(turn.payload, Evaluation) and turn.payload.confirms
    )
    assert turns[place + 1].speaker == "fixer" and result.summary.best is None
    attempts = [attempt for one in result.summary.rounds for attempt in one.attempts]
    assert [a.verdict for a in attempts][-1] == "unsafe"


def test_approve_all_asks_no_more(task: Task, tmp_path: Path) -> None:
    result = run(task, tmp_path / "out", decisions(tmp_path, "approve_all"))
    assert len(human(result.transcript)) == 1
    assert result.summary.best is not None and result.summary.best.ratio == 1.9


def test_stop_can_be_resumed(task: Task, tmp_path: Path) -> None:
    result = run(task, tmp_path / "out", decisions(tmp_path, "stop"))
    assert result.summary.ended is not None and result.summary.ended.reason == "interrupted"
    assert not human(result.transcript)
    go_on(task, result.transcript, decisions(tmp_path, "approve_all"))
    whole = run(task, tmp_path / "whole", decisions(tmp_path, "approve_all"))
    assert story(result.transcript) == story(whole.transcript)


def test_detached_decisions_come_to_the_identical_end(task: Task, tmp_path: Path) -> None:
    """Each decision by another process, each time the run continues by --resume alone."""
    path = run(task, tmp_path / "out", "detached").transcript
    rounds = 0
    while (ended := read(path).ended) is not None and ended.reason == "waiting":
        run_now = waiting(path)
        word = "reject" if rounds == 0 else "approve"
        record(run_now, _said(run_now.question, word))
        assert waiting(path).decided == _said(run_now.question, word)
        go_on(task, path)
        rounds += 1
    spec = decisions(tmp_path, "reject", "approve", "approve")
    whole = run(task, tmp_path / "whole", spec)
    assert rounds == 3 and story(path) == story(whole.transcript)


def _said(asked, word):  # type: ignore[no-untyped-def]
    from astra_chat.agents.approval import decision

    return decision(asked, word)


def test_the_decisions_of_a_recorded_run_need_no_human(task: Task, tmp_path: Path) -> None:
    spec = decisions(tmp_path, "reject too bold", "approve", "approve")
    first = run(task, tmp_path / "first", spec)
    again = run(task, tmp_path / "again", str(first.transcript))
    assert story(again.transcript) == story(first.transcript)
    assert isinstance(approver_for(str(first.transcript)), RecordedDecisions)


def test_a_recorded_decision_is_about_its_candidate(task: Task, tmp_path: Path) -> None:
    """In the second run the winner does not hold, so one question fewer is asked."""
    spec = decisions(tmp_path, "approve", "approve", "approve", "reject not this week")
    first = run(task, tmp_path / "first", spec)
    again = run(task, tmp_path / "again", str(first.transcript), Unsteady())
    assert [t.payload.decision for t in human(again.transcript)] == ["approve"] * 3  # type: ignore[union-attr]
    script = task.folder / "script" / "vector.cu"
    script.write_text(script.read_text() + "// another\n")
    other = load_task(task.folder)
    judge = FixedJudge({VECTOR + "// another\n": timed(1.9)})
    waits = run(other, tmp_path / "other", str(first.transcript), judge)
    assert waits.summary.ended is not None and waits.summary.ended.reason == "waiting"


def test_without_a_terminal_nothing_begins(
    task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("approve\n" * 9))
    judge = judge_of_edits()
    with pytest.raises(NoTerminal, match="--approver detached") as caught:
        run(task, tmp_path / "out", "ask", judge)
    assert caught.value.exit_code == WAITING and len(str(caught.value).splitlines()) == 1
    assert not judge.evaluated and not (tmp_path / "out").exists()


def asked_now():  # type: ignore[no-untyped-def]
    turns = [
        *asking_turns(),
        Turn("planner", plan("Vectors of [four]")),
        *coded(VECTOR, "Four at a time."),
    ]
    found = question(state_of(turns), SCALAR)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("typed", "word", "reason"),
    [
        ("a\n", "approve", ""),
        ("absolutely not\n\nno\nappprove\nall of it\n Approve \n", "approve", ""),
        ("reject it, a bad idea\nr\n\n \ntoo bold\n", "reject", "too bold"),
        ("approve  ALL\n", "approve_all", ""),
        ("L\n", "approve_all", ""),
        ("r\n too bold \n", "reject", "too bold"),
    ],
)
def test_what_is_typed(typed: str, word: str, reason: str) -> None:
    out = io.StringIO()
    said = Terminal(io.StringIO(typed), out).decide(asked_now())
    assert isinstance(said, Turn)
    assert said.payload == Approval(candidate=candidate_id(VECTOR), decision=word, reason=reason)  # type: ignore[arg-type]
    shown = out.getvalue()
    assert "Vectors of [four]" in shown and "+  float4 v = in[i];" in shown and "build: " in shown
    assert "1.50x over its parent" in shown


def test_the_whole_difference_is_shown_where_it_is_asked_for() -> None:
    asked = replace(asked_now(), kernel=Kernel(words="", source=VECTOR + "// line\n" * 500))
    out = io.StringIO()
    assert Terminal(io.StringIO("d\ns\n"), out).decide(asked) == "stop"
    before, after = out.getvalue().split("full [d]iff, ", 1)
    assert before.count("+// line") < 200 and "d to show them all" in before
    assert after.count("+// line") == 500 and after.count("[s]top, ") == 2


def test_the_question_says_what_it_is_about_and_explains() -> None:
    for gate, question_mark, meaning in (
        ("run", "run it? ", "its code runs on this machine"),
        ("accept", "accept it as the best? ", "best.cu (best.py) contains it"),
    ):
        out = io.StringIO()
        asked = replace(asked_now(), gate=gate)
        assert Terminal(io.StringIO("?\nabsolutely not\ns\n"), out).decide(asked) == "stop"
        shown = out.getvalue()
        assert shown.count(question_mark) == 3 and meaning in shown
        assert "not understood: absolutely not; type ? for help" in shown


@pytest.mark.parametrize("typed", ["", "s\n", "x\n", "r\n", "r\n\n"])
def test_the_end_of_the_input_stops(typed: str) -> None:
    assert Terminal(io.StringIO(typed), io.StringIO()).decide(asked_now()) == "stop"


def editor(folder: Path, script: str) -> str:
    path = folder / "editor.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return f"{path} -w"


def test_an_edit_in_the_users_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor(tmp_path, 'sed -i s/128/256/g "$2"'))
    said = Terminal(io.StringIO("e\n"), io.StringIO()).decide(asked_now())
    assert isinstance(said, Turn) and isinstance(said.payload, Kernel)
    assert said.speaker == "human" and said.payload.source == EDITED


@pytest.mark.parametrize(("script", "said"), [("true", "changes nothing"), ("false", "failed")])
def test_an_edit_that_is_none_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setenv("VISUAL", editor(tmp_path, script))
    out = io.StringIO()
    found = Terminal(io.StringIO("e\na\n"), out).decide(asked_now())
    assert isinstance(found, Turn) and isinstance(found.payload, Approval)
    assert said in out.getvalue()


def test_no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    with pytest.raises(BadInput, match="cannot start the editor '/no/such/editor'"):
        edited(asked_now())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("decision = 3", "decision"),
        ("", "decision: it is missing"),
        ('[[decision]]\nanswer = "perhaps"', "decision.0.answer"),
        ("not toml", "cannot read decisions"),
    ],
)
def test_a_file_of_decisions_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "d.toml"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        Scripted(path)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_no_file_of_decisions(tmp_path: Path) -> None:
    for name in ("none.toml", "none.jsonl", "asks"):
        with pytest.raises(BadInput, match="use ask, detached, a file of decisions"):
            approver_for(str(tmp_path / name))


def test_an_edit_whose_file_is_not_there_is_said_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot read .*none\.cu: No such file"):
        Scripted(Path(decisions(tmp_path, "approve", "edit none.cu")))


def test_a_resumed_run_may_switch_approvals_off_and_on_again(task: Task, tmp_path: Path) -> None:
    path = run(task, tmp_path / "out", decisions(tmp_path, "approve", "stop")).transcript
    before = human(path)
    request = request_on(resumed(path), task, session=SessionOptions(approver="none"))
    assert request.approver is None and not request.limits.approval
    result = go_on(task, path, "none")
    assert result.summary.ended is not None and result.summary.ended.reason == "no_plan"
    assert human(path) == before, "nobody was asked"
    assert read(path).options.approval == "" and read(path).header.options.approval == "decisions"
    assert result.summary.best is not None and result.summary.best.confirmed
    more = branched(path, 1)
    off = request_on(more, task, session=SessionOptions(out=tmp_path / "b"))
    assert off.approver is None and not off.limits.approval, "it stays off"
    on = request_on(more, task, session=SessionOptions(out=tmp_path / "b", approver="detached"))
    assert on.approver == "detached" and on.limits.approval


def test_who_is_asked_cannot_begin_in_the_middle(task: Task, tmp_path: Path) -> None:
    path = run(task, tmp_path / "out", None).transcript
    with pytest.raises(BadInput, match="started without"):
        request_on(resumed(path), task, session=SessionOptions(approver="ask"))
    path = run(task, tmp_path / "other", decisions(tmp_path, "stop")).transcript
    with pytest.raises(BadInput, match="give that file with --approver"):
        request_on(resumed(path), task, RunOptions())


def test_the_evidence_of_a_winner_is_shown() -> None:
    judged = evaluation(VECTOR, timed(1.9))
    slow = timed(1.6).cases[0].model_copy(update={"case": OTHER_CASE})
    timing = timed(1.8)
    timing = timing.model_copy(update={"cases": (*timing.cases, slow)})
    confirmed = evaluation(VECTOR, timing).model_copy(update={"confirms": True})
    said = Approval(candidate="c", decision="approve")
    turns = [
        *asking_turns(),
        Turn("planner", plan()),
        *coded(VECTOR, "w"),
        Turn("human", said),
        Turn("executor", judged),
        Turn("executor", confirmed),
    ]
    found, out = question(state_of(turns), SCALAR), io.StringIO()
    assert found is not None
    Terminal(io.StringIO("a\n"), out).decide(found)
    shown = " ".join(out.getvalue().split())
    assert "is waiting to be accepted as the best" in shown
    for case in confirmed.outcome.cases:  # type: ignore[union-attr]
        assert case.case.label in shown
    assert "1.62 to 1.98" in shown and "1.44 to 1.76" in shown and "% of" in shown
    assert "confirmed: on fresh seeds estimated 1.80x the baseline's speed" in shown
    assert ", in the search 1.90x" in shown
    assert "sanitizers: the virtual GPU checked" in shown
    assert f"slowest case: {OTHER_CASE.label}, estimated 1.600x (1.440 to 1.760)" in shown
    assert "all cases, weighted: estimated 85 % of the physical limit" in shown
    assert "the plan predicted 1.50x over its parent, estimated 1.80x" in shown
