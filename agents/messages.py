"""Turns as AutoGen messages, and back."""

from __future__ import annotations

from typing import Any, Literal, cast

from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, StructuredMessage

from astra_chat.agents.run_state import RunState
from astra_chat.agents.turns import (
    Analysis,
    Approval,
    Kernel,
    Pass,
    Payload,
    Plan,
    RunRequest,
    Speaker,
    TestSuite,
    Turn,
)
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.tuning.tuned import Tuning


# One subclass for each payload: its name is stable, and AutoGen's teams register it by themselves.
class RunRequestMessage(StructuredMessage[RunRequest]):
    pass


class TestSuiteMessage(StructuredMessage[TestSuite]):
    __test__ = False


class ScoresMessage(StructuredMessage[CaseScores]):
    pass


class TuningMessage(StructuredMessage[Tuning]):
    pass


class PlanMessage(StructuredMessage[Plan]):
    pass


class KernelMessage(StructuredMessage[Kernel]):
    pass


class BuildMessage(StructuredMessage[BuildReport]):
    pass


class ExecutionMessage(StructuredMessage[Evaluation]):
    pass


class AnalysisMessage(StructuredMessage[Analysis]):
    pass


class PassMessage(StructuredMessage[Pass]):
    pass


class ApprovalMessage(StructuredMessage[Approval]):
    pass


class RejectedReplyEvent(BaseAgentEvent):
    """A model's reply could not be used and was sent back with the reason."""

    type: Literal["RejectedReplyEvent"] = "RejectedReplyEvent"
    content: str
    """What was wrong with the reply."""

    def to_text(self) -> str:
        return self.content


class ContradictionEvent(BaseAgentEvent):
    """A model's usable reply contradicts the facts."""

    type: Literal["ContradictionEvent"] = "ContradictionEvent"
    content: str
    """Which facts, and how."""
    stands: bool
    """The model repeated it and the turn follows; else it was sent back."""

    def to_text(self) -> str:
        return self.content


MESSAGE_TYPES: dict[type[Payload], type[StructuredMessage[Any]]] = {
    RunRequest: RunRequestMessage,
    TestSuite: TestSuiteMessage,
    CaseScores: ScoresMessage,
    Tuning: TuningMessage,
    Plan: PlanMessage,
    Kernel: KernelMessage,
    BuildReport: BuildMessage,
    Evaluation: ExecutionMessage,
    Analysis: AnalysisMessage,
    Pass: PassMessage,
    Approval: ApprovalMessage,
}


def message(speaker: Speaker, payload: Payload) -> BaseChatMessage:
    """The payload as the chat message of its class."""
    return MESSAGE_TYPES[type(payload)](content=payload, source=speaker)


def turn(item: BaseChatMessage) -> Turn:
    """The typed turn of one of our messages."""
    if type(item) not in MESSAGE_TYPES.values():
        raise TypeError(f"{type(item).__name__} is not a message type of this chat")
    content = cast(StructuredMessage[Any], item).content
    return Turn(cast(Speaker, item.source), content)


class SharedState:
    """The state of the run, shared by all agents of a team: each adds its own turns.

    Turns of a team come one at a time, so no agent sees an incomplete one.
    """

    def __init__(self, state: RunState) -> None:
        self.now = state

    def add(self, speaker: Speaker, payload: Payload) -> BaseChatMessage:
        """Add a turn to the state; returns its message."""
        self.now = self.now.after(Turn(speaker, payload))
        return message(speaker, payload)
