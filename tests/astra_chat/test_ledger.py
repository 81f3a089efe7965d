"""The ledger is a function of the records alone."""

from __future__ import annotations

from pathlib import Path

from astra_chat.agents.policy import Decision
from astra_chat.ledger import gpu_seconds, ledger
from astra_chat.tools.types import Device, Step
from astra_chat.transcript.events import Chosen, Event, Record, Repaired
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import Asked, Tokens
from tests.chat_samples import SCALAR, evaluation, timed, write_transcript


def record(event: Event) -> Record:
    return Record(run="r", seq=0, t=0.0, turn=0, event=event)


def test_of_a_run(tmp_path: Path) -> None:
    spent = ledger(read(write_transcript(tmp_path / "t.jsonl")).records)
    assert spent.evaluations == 2 and spent.tokens == Tokens() and spent.roles == ()
    seconds = {step.step: step.seconds for step in spent.steps}
    assert seconds == {"guard": 0.01, "build": 1.5, "check": 0.2, "time": 0.4}
    assert spent.gpu_s == 0.0
    assert [(one.reason, one.times) for one in spent.rejected] == [("tie", 1)]


def test_answers_by_role() -> None:
    found = ledger([
        record(Asked(role="coder", model="m", tokens=Tokens(prompt=10, cached=4, usd=0.5))),
        record(Asked(role="selector", model="m", tokens=Tokens(completion=3, usd=0.25))),
        record(Asked(role="coder", model="m", tokens=Tokens(prompt=1, reasoning=2, usd=0.5))),
    ])  # fmt: skip
    assert found.tokens == Tokens(prompt=11, cached=4, completion=3, reasoning=2, usd=1.25)
    coder, selector = found.roles
    assert (coder.role, coder.answers, coder.tokens.usd) == ("coder", 2, 1.0)
    assert (selector.role, selector.answers) == ("selector", 1)


def test_replies_that_were_sent_back() -> None:
    decision = Decision(speaker="tester", by="model", legal=("tester",), rejected=("a", "b"))
    found = ledger([
        record(Repaired(speaker="coder", reason="empty")), record(Chosen(decision=decision)),
    ])  # fmt: skip
    assert [(one.reason, one.times) for one in found.rejected] == [("unusable reply", 3)]


def test_gpu_seconds_leave_out_the_build() -> None:
    steps = (Step(name="build", seconds=9.0), Step(name="check", seconds=1.5))
    found = evaluation(SCALAR, timed(1.0)).model_copy(update={"steps": steps})
    assert gpu_seconds(found) == 0.0
    cuda = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    assert gpu_seconds(found.model_copy(update={"device": cuda})) == 1.5
