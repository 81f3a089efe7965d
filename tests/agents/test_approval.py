"""What a human is asked, and what an answer amounts to."""

from __future__ import annotations

import pytest

from astra_chat.agents.approval import Question, decision, question
from astra_chat.agents.run_state import state_of
from astra_chat.agents.turns import Approval, Kernel, Payload, Speaker, Turn
from tests.chat_samples import (
    SCALAR,
    VECTOR,
    WRONG_OUTCOME,
    asking_turns,
    build,
    evaluation,
    plan,
    timed,
)


def chat(*turns: tuple[Speaker, Payload]) -> list[Turn]:
    first: list[tuple[Speaker, Payload]] = [
        ("planner", plan()),
        ("coder", Kernel(words="Four at a time.", source=VECTOR)),
        ("executor", build(VECTOR)),
    ]
    return [*asking_turns(), *(Turn(speaker, payload) for speaker, payload in (*first, *turns))]


def ask(*turns: tuple[Speaker, Payload]) -> Question:
    asked = question(state_of(chat(*turns)), SCALAR)
    assert asked is not None
    return asked


def test_before_anything_runs() -> None:
    asked = ask()
    assert asked.gate == "run" and asked.number == 0 and asked.round == 1
    assert asked.author == "coder" and asked.kernel.source == VECTOR
    assert asked.plan == plan() and asked.build == build(VECTOR) and asked.evaluation is None
    assert (asked.parent, asked.parent_name, asked.before) == (SCALAR, "the baseline", 1.0)
    assert asked.text == f"candidate {asked.kernel.candidate} of round 1 is waiting to be run"


def test_before_a_winner_is_accepted() -> None:
    searched, judged = (evaluation(VECTOR, timed(ratio)) for ratio in (1.9, 1.8))
    judged = judged.model_copy(update={"confirms": True})
    asked = ask(decided("approve"), ("executor", searched), ("executor", judged))
    assert asked.gate == "accept" and asked.number == 1
    assert asked.evaluation == judged and asked.search_ratio == 1.9
    assert asked.parent == SCALAR, "it is not its own parent"


def decided(word: str) -> tuple[Speaker, Payload]:
    return "human", Approval.model_validate({"candidate": "c", "decision": word})


def test_the_parent_is_the_best_that_was_approved() -> None:
    faster = VECTOR + "// faster\n"
    turns: list[tuple[Speaker, Payload]] = [
        decided("approve"),
        ("executor", evaluation(VECTOR, timed(1.9))),
        ("executor", evaluation(VECTOR, timed(1.8)).model_copy(update={"confirms": True})),
        decided("approve"),
        ("planner", plan()),
        ("coder", Kernel(words="", source=faster)),
        ("executor", build(faster)),
    ]
    asked = ask(*turns)
    assert asked.parent == VECTOR and asked.before == 1.8 and asked.round == 2


@pytest.mark.parametrize(
    "turns",
    [
        [decided("approve")],
        [decided("reject")],
        [decided("approve"), ("executor", evaluation(VECTOR, timed(1.9)))],
        [decided("approve"), ("executor", evaluation(VECTOR, WRONG_OUTCOME))],
        [decided("approve"), ("executor", evaluation(VECTOR, timed(0.9, "slower")))],
        [decided("approve_all"), ("executor", evaluation(VECTOR, timed(1.9)))],
    ],
)
def test_nothing_to_decide(turns: list[tuple[Speaker, Payload]]) -> None:
    assert question(state_of(chat(*turns)), SCALAR) is None


def test_answers_become_turns() -> None:
    asked = ask()
    said = decision(asked, "reject", "too bold")
    assert said == Turn(
        "human",
        Approval(candidate=asked.kernel.candidate, decision="reject", reason="too bold"),
    )
    edited = decision(asked, "edit", source=SCALAR)
    assert edited.speaker == "human" and isinstance(edited.payload, Kernel)
    assert edited.payload.source == SCALAR and asked.kernel.candidate in edited.payload.words


@pytest.mark.parametrize(("source", "said"), [("  \n", "empty"), (VECTOR, "changes nothing")])
def test_an_edit_that_is_none(source: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        decision(ask(), "edit", source=source)
