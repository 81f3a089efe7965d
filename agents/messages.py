"""The chat's payloads as AutoGen messages, and back."""

from __future__ import annotations

from typing import Any, Literal, cast

from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    StructuredMessage,
)

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


# One subclass for each payload: its name is stable, and teams register it by itself.
class RunRequestMessage(StructuredMessage[RunRequest]):
    pass


class TestSuiteMessage(StructuredMessage[TestSuite]):
    __test__ = False


class ScoresMessage(StructuredMessage[CaseScores]):
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
    """A model's reply could not be used and was sent back in words."""

    type: Literal["RejectedReplyEvent"] = "RejectedReplyEvent"
    content: str
    """What was wrong with the reply."""

    def to_text(self) -> str:
        return self.content


class ContradictionEvent(BaseAgentEvent):
    """The facts speak against a model's usable reply."""

    type: Literal["ContradictionEvent"] = "ContradictionEvent"
    content: str
    """What they say."""
    stands: bool
    """The model stood by it and the turn follows; else it was sent back in words."""

    def to_text(self) -> str:
        return self.content


MESSAGE_TYPES: dict[type[Payload], type[StructuredMessage[Any]]] = {
    RunRequest: RunRequestMessage,
    TestSuite: TestSuiteMessage,
    CaseScores: ScoresMessage,
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


def turn(said: BaseChatMessage) -> Turn:
    """The typed turn of one of our messages."""
    if type(said) not in MESSAGE_TYPES.values():
        raise TypeError(f"{type(said).__name__} is no message of this chat")
    content = cast(StructuredMessage[Any], said).content
    return Turn(cast(Speaker, said.source), content)


class SharedState:
    """The state of the run as all agents of one team see it: each adds its own turns.

    Turns of a team come one at a time, so nobody ever sees half of one.
    """

    def __init__(self, state: RunState) -> None:
        self.now = state

    def say(self, speaker: Speaker, payload: Payload) -> BaseChatMessage:
        """Take a turn: it is part of the state from here on."""
        self.now = self.now.after(Turn(speaker, payload))
        return message(speaker, payload)
