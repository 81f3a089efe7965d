"""The ledger is a function of the records alone."""

from __future__ import annotations

from pathlib import Path

from astra_chat.agents.turn_order import Decision
from astra_chat.agents.turns import Approval, Pass
from astra_chat.tools.evaluation import GpuUse, Step
from astra_chat.tools.types import Device
from astra_chat.transcript.events import (
    ChatMessage,
    Chosen,
    Contradiction,
    Event,
    Judged,
    Record,
    RejectedReply,
)
from astra_chat.transcript.ledger import gpu_seconds, gpu_use, gpu_wait_s, ledger
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall, Tokens
from tests.chat_samples import SCALAR, WRONG_OUTCOME, evaluation, timed, write_transcript


def record(event: Event) -> Record:
    return Record(run="r", seq=0, t=0.0, turn=0, event=event)


def test_of_a_run(tmp_path: Path) -> None:
    spent = ledger(read(write_transcript(tmp_path / "t.jsonl")).records)
    assert spent.evaluations == 2 and spent.tokens == Tokens() and spent.roles == ()
    seconds = {step.step: step.seconds for step in spent.steps}
    assert seconds == {"guard": 0.01, "build": 1.5, "check": 0.2, "time": 0.4}
    assert spent.gpu_s == 0.0
    assert spent.rejected == (), "the baseline ties with itself and is no candidate"


def test_what_was_turned_down() -> None:
    outcomes = [timed(1.0, "tie"), timed(1.0, "tie"), WRONG_OUTCOME, timed(1.9), timed(1.0, "tie")]
    found = ledger([record(Judged(evaluation=evaluation(SCALAR, one))) for one in outcomes])
    assert found.evaluations == 5
    assert [(one.reason, one.times) for one in found.rejected] == [("tie", 2), ("wrong", 1)]


def test_answers_by_role() -> None:
    found = ledger(
        [
            record(ModelCall(role="coder", model="m", tokens=Tokens(prompt=10, cached=4, usd=0.5))),
            record(ModelCall(role="selector", model="m", tokens=Tokens(completion=3, usd=0.25))),
            record(
                ModelCall(role="coder", model="m", tokens=Tokens(prompt=1, reasoning=2, usd=0.5))
            ),
        ]
    )
    assert found.tokens == Tokens(prompt=11, cached=4, completion=3, reasoning=2, usd=1.25)
    coder, selector = found.roles
    assert (coder.role, coder.answers, coder.tokens.usd) == ("coder", 2, 1.0)
    assert (selector.role, selector.answers) == ("selector", 1)


def test_replies_that_were_sent_back() -> None:
    decision = Decision(speaker="tester", by="model", legal=("tester",), rejected=("a", "b"))
    found = ledger(
        [
            record(RejectedReply(speaker="coder", reason="empty")),
            record(Chosen(decision=decision)),
            record(Contradiction(speaker="planner", reason="no such line", stands=False)),
            record(Contradiction(speaker="planner", reason="no such line", stands=True)),
        ]
    )
    told = [(one.reason, one.times) for one in found.rejected]
    assert (
        told == [("unusable reply", 3), ("reply contradicts the facts", 1)]
        and found.contradictions == 1
    )


def test_what_the_human_did_not_want() -> None:
    said = [Approval(candidate="c", decision=word) for word in ("reject", "approve", "reject")]  # type: ignore[arg-type]
    found = ledger([record(ChatMessage(speaker="human", payload=one)) for one in said])
    assert [(one.reason, one.times) for one in found.rejected] == [("rejected by the human", 2)]


def test_what_unusable_answers_cost() -> None:
    """An answer and what came of it stand side by side; the selector's are told with its choice."""
    decision = Decision(speaker="tester", by="model", legal=("tester",), rejected=("a",))
    asked = [
        ModelCall(role=role, model="m", tokens=Tokens(prompt=tokens))
        for role, tokens in (("coder", 10), ("coder", 20), ("selector", 3), ("selector", 4))
    ]
    found = ledger(
        [
            record(asked[0]),
            record(RejectedReply(speaker="coder", reason="empty")),
            record(asked[1]),
            record(ChatMessage(speaker="coder", payload=Pass(words="no"))),
            record(asked[2]),
            record(asked[3]),
            record(Chosen(decision=decision)),
            record(RejectedReply(speaker="coder", reason="a scripted one, nobody was asked")),
        ]
    )
    told = [(one.role, one.answers, one.unusable, one.unusable_tokens.total) for one in found.roles]
    assert told == [("coder", 2, 1, 10), ("selector", 2, 1, 3)]


def test_gpu_seconds_leave_out_the_build() -> None:
    steps = (
        Step(name="build", seconds=9.0),
        Step(name="check", seconds=1.5),
        Step(name="sanitize", seconds=4.0),
    )
    found = evaluation(SCALAR, timed(1.0)).model_copy(update={"steps": steps})
    assert gpu_seconds(found) == 0.0
    cuda = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    assert gpu_seconds(found.model_copy(update={"device": cuda})) == 5.5


def test_the_wait_for_a_gpu_is_no_use_of_it() -> None:
    """Several evaluations add up, though NVML says something about only one of them."""
    cuda = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
    steps = (
        Step(name="build", seconds=9.0, gpu=GpuUse(held_s=0.5)),
        Step(
            name="check",
            seconds=7.0,
            waited_s=4.0,
            gpu=GpuUse(held_s=2.0, energy_j=900.0, busy=0.5),
        ),
        Step(
            name="time", seconds=3.0, waited_s=1.0, gpu=GpuUse(held_s=1.0, energy_j=600.0, busy=0.8)
        ),
    )
    changes = {"device": cuda, "steps": steps}
    found = evaluation(SCALAR, timed(1.0)).model_copy(update=changes)
    assert gpu_seconds(found) == 3.5 and gpu_wait_s(found) == 5.0
    old = found.model_copy(update={"steps": (Step(name="check", seconds=1.5),)})
    assert gpu_use([found, old]) == GpuUse(held_s=5.0, energy_j=1500.0, busy=0.6)
    spent = ledger([record(Judged(evaluation=found)), record(Judged(evaluation=old))])
    assert (spent.gpu_s, spent.gpu_wait_s, spent.energy_j) == (5.0, 5.0, 1500.0)
    check = next(step for step in spent.steps if step.step == "check")
    assert (check.seconds, check.waited_s) == (8.5, 4.0)
