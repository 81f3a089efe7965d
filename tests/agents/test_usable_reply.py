"""Replies become turns, or text for the model."""

from __future__ import annotations

import pytest

from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.role_agent import choice_of, payload_of
from astra_chat.agents.run_state import state_of
from astra_chat.agents.strategy import parse_strategy
from astra_chat.agents.turns import (
    AnyReply,
    Edit,
    Edits,
    Kernel,
    KernelReply,
    Pass,
    PlannerReply,
    RoleName,
    SingleReply,
    Source,
    TesterReply,
    Turn,
)
from astra_chat.tools.task.folder import Task
from tests.chat_samples import DEVICE, SCALAR, VECTOR, baseline_turns, plan, run_request, suite


def context(task: Task) -> ChatContext:
    return ChatContext(task=task, baseline=SCALAR, tier="sglang", device=DEVICE.name)


GONE = Edit(find="nowhere", replace="")
PLANNED = state_of([*baseline_turns(), Turn("planner", plan())])


def test_a_source_and_edits_become_kernels(task: Task) -> None:
    whole = KernelReply(reply=Source(words="Vectors.", source=VECTOR))
    assert payload_of("coder", whole, context(task), PLANNED) == Kernel(
        words="Vectors.", source=VECTOR
    )
    edits = KernelReply(reply=Edits(words="Wider.", edits=(Edit(find="4, 64", replace="8, 64"),)))
    made = payload_of("coder", edits, context(task), PLANNED)
    assert isinstance(made, Kernel) and made.source == SCALAR.replace("4, 64", "8, 64")


@pytest.mark.parametrize(
    ("role", "reply", "said"),
    [
        ("coder", KernelReply(reply=Source(words="", source=" ")), "the source is empty"),
        ("coder", KernelReply(reply=Edits(words="", edits=(GONE,))), "occurs 0 times"),
        ("tester", TesterReply(reply=suite((7, 13))), "case 1"),
        ("single", SingleReply(reply=plan()), "a kernel is expected at this point"),
    ],
)
def test_what_cannot_be_used_is_said(
    task: Task, role: RoleName, reply: AnyReply, said: str
) -> None:
    asked = PLANNED
    if role == "single":
        request = run_request().model_copy(update={"strategy": parse_strategy("single")})
        asked = state_of([Turn("user", request), baseline_turns()[2], Turn("single", plan())])
    with pytest.raises(ValueError, match=said):
        payload_of(role, reply, context(task), asked)


def test_a_pass_is_always_a_turn(task: Task) -> None:
    passed = Pass(words="nothing to add")
    assert payload_of("planner", PlannerReply(reply=passed), context(task), PLANNED) == passed


def test_a_choice_is_one_of_the_legal_speakers() -> None:
    assert choice_of('{"choose": "tester"}', ("planner", "tester")) == "tester"
    with pytest.raises(ValueError, match="'coder' may not act at this point; only planner or"):
        choice_of('{"choose": "coder"}', ("planner", "tester"))
    with pytest.raises(ValueError, match="does not match the schema"):
        choice_of("tester", ("planner", "tester"))
