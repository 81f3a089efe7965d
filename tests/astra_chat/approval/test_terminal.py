"""Whole chats in which somebody decides at a real terminal: every answer, Ctrl-C, and resuming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.agents.turns import Approval, Kernel
from astra_chat.models.open_models import open_models
from astra_chat.session.request import Request, SessionOptions
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_chat.transcript.turns import turns_of
from tests.astra_chat.terminal import OwnTerminal
from tests.chat_samples import DEVICE, SCRIPT, VECTOR, FixedJudge, run_options, timed

EDITED = VECTOR.replace("128", "256")
ASKS = "[?] "


@pytest.fixture
def short(task: Task) -> Task:
    """The sample task with a script of one round, whose candidate is faster."""
    rounds = SCRIPT.split("[[round]]")
    (task.folder / "script" / "script.toml").write_text("[[round]]".join([rounds[0], rounds[2]]))
    return task


def chat(task: Task, out: Path, rounds: int = 1) -> Callable[[], int]:
    """A run that asks, begun or resumed; exit code 0 where it came to its end. Tests leave no
    winner, which would be built for its module and take seconds."""

    def hold() -> int:
        judge = FixedJudge({EDITED: timed(2.5)})
        if (out / TRANSCRIPT).is_file():
            past = resumed(out)
            request = request_on(past, task, session=SessionOptions(approver="ask"))
            ended = run_request(request, judge=judge, past=past).summary.ended
        else:
            models, options = open_models("scripted", task), run_options(rounds=rounds)
            request = Request(task, DEVICE, models, options, folder=out, approver="ask")
            ended = run_request(request, judge=judge).summary.ended
        assert ended is not None
        return 130 if ended.reason == "interrupted" else 0

    return hold


def decided(out: Path) -> list[Approval | Kernel]:
    turns = turns_of(read(out).records)
    said = [turn.payload for turn in turns if turn.speaker == "human"]
    return [one for one in said if isinstance(one, Approval | Kernel)]


def test_approved_then_rejected_in_the_last_round(short: Task, tmp_path: Path) -> None:
    """No planner follows, so none is promised; Enter gives no reason."""
    at = OwnTerminal(chat(short, tmp_path / "out"))
    at.wait_for(ASKS)
    at.type("a\n")
    at.wait_for("accept it as the best? ")
    at.wait_for(ASKS)
    at.type("?\n")
    at.wait_for("the reason is recorded")
    at.wait_for(ASKS)
    at.type("r\n")
    at.wait_for("reason for the record")
    at.type("\n")
    assert at.end() == 0, at.shown
    assert "planner will read" not in at.plain
    first, second = decided(tmp_path / "out")
    assert isinstance(first, Approval) and first.decision == "approve"
    assert isinstance(second, Approval) and (second.decision, second.reason) == ("reject", "")


def test_rejected_with_a_reason_that_the_planner_reads(task: Task, tmp_path: Path) -> None:
    at = OwnTerminal(chat(task, tmp_path / "out", rounds=3))
    at.wait_for(ASKS)
    at.type("r\n")
    at.wait_for("reason (the planner will read it): ")
    at.type("\n")
    at.wait_for("reason (the planner will read it): ")
    at.type("too bold\n")
    at.wait_for(ASKS)
    at.type("s\n")
    assert at.end() == 130, at.shown
    (only,) = decided(tmp_path / "out")
    assert isinstance(only, Approval) and (only.decision, only.reason) == ("reject", "too bold")


def test_edited_in_an_editor_at_the_terminal(
    short: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The editor has the terminal while it runs; its result is built and asked about."""
    script = tmp_path / "editor.sh"
    script.write_text('#!/bin/sh\necho editing; read answer\nsed -i "s/128/$answer/g" "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(script))
    at = OwnTerminal(chat(short, tmp_path / "out"))
    at.wait_for(ASKS)
    at.type("e\n")
    at.wait_for("editing")
    at.type("256\n")
    at.wait_for("accept it as the best? ")
    at.type("r\n")
    at.wait_for("reason ")
    at.type("\n")
    assert at.end() == 0, at.shown
    edit, rejection = decided(tmp_path / "out")
    assert isinstance(edit, Kernel) and edit.source == EDITED
    assert isinstance(rejection, Approval) and rejection.decision == "reject"


@pytest.mark.parametrize("keys", ["s\n", "\x03", "\x04", "r\n\x03"], ids=["s", "C", "D", "why"])
def test_left_and_resumed(short: Task, tmp_path: Path, keys: str) -> None:
    """Stop, Ctrl-C, the end of the input, and Ctrl-C while a reason is asked for: nothing is
    decided, and the resumed run asks the same once more."""
    out = tmp_path / "out"
    at = OwnTerminal(chat(short, out))
    at.wait_for(ASKS)
    first, *rest = keys
    at.type(first)
    if rest:
        at.type(rest.pop(0))
    if rest:
        at.wait_for("reason ")
        at.type(rest.pop(0))
    assert at.end() == 130, at.shown
    assert decided(out) == []
    again = OwnTerminal(chat(short, out))
    again.type("a\n")  # before anything is asked: it is no answer
    again.wait_for(ASKS)
    assert "is waiting to be run" in again.plain
    again.type("r\n")
    again.wait_for("reason ")
    again.type("no\n")
    assert again.end() == 0, again.shown
    (only,) = decided(out)
    assert isinstance(only, Approval) and (only.decision, only.reason) == ("reject", "no")
