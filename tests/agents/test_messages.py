"""Payloads as AutoGen messages and back, and the state that a team shares."""

from __future__ import annotations

import pytest
from autogen_agentchat.messages import MessageFactory, TextMessage

from astra_chat.agents.messages import MESSAGE_TYPES, RejectedReplyEvent, SharedState, message, turn
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import Kernel, Pass, Payload
from tests.chat_samples import (
    VECTOR,
    WRONG_OUTCOME,
    analysis,
    build,
    evaluation,
    plan,
    run_request,
    suite,
)

PAYLOADS: list[Payload] = [
    run_request(),
    suite((7, 12)),
    plan(),
    Kernel(words="w", source=VECTOR),
    build(VECTOR),
    evaluation(VECTOR, WRONG_OUTCOME),
    analysis(),
    Pass(words="nothing"),
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda p: type(p).__name__)
def test_each_payload_has_a_message_of_its_own(payload: Payload) -> None:
    said = message("coder", payload)
    assert type(said) is MESSAGE_TYPES[type(payload)]
    assert turn(said).payload is payload and turn(said).speaker == "coder"


def test_another_message_is_refused() -> None:
    with pytest.raises(TypeError, match="TextMessage"):
        turn(TextMessage(content="hello", source="user"))


def test_our_event_is_known_by_its_name() -> None:
    factory = MessageFactory()
    factory.register(RejectedReplyEvent)
    event = RejectedReplyEvent(content="why", source="planner")
    assert factory.create(event.dump()) == event


def test_what_one_agent_says_all_agents_know() -> None:
    shared = SharedState(RunState())
    said = shared.add("planner", plan("a"))
    assert turn(said) == shared.now.last and len(shared.now.rounds) == 1
