"""The AutoGen team of one run: six speakers, a moderator, and an end by the turn order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from autogen_agentchat.base import TerminationCondition
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, StopMessage
from autogen_agentchat.teams import SelectorGroupChat
from autogen_core.model_context import BufferedChatCompletionContext

from astra_chat.agents.executor import Executor, JudgeProtocol
from astra_chat.agents.messages import MESSAGE_TYPES, DoubtEvent, RepairEvent
from astra_chat.agents.messages import thread as typed
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.role_agent import RoleAgent
from astra_chat.agents.run_state import Limits, Turn
from astra_chat.agents.selector import Selector
from astra_chat.agents.turn_order import STOP_WORDS, Next, next_speakers
from astra_chat.models import Models

STALLED = "The group chat is stopped."
"""AutoGen's stop reason when nobody speaks any more though nobody ended the chat."""


class _ByTurnOrder(TerminationCondition):
    """Ends a run of the team by what the turn order says after a turn."""

    component_type = "termination"

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._thread: list[Turn] = []
        self._terminated = False

    @property
    def terminated(self) -> bool:
        return self._terminated

    async def __call__(
        self, messages: Sequence[BaseAgentEvent | BaseChatMessage]
    ) -> StopMessage | None:
        self._thread += typed(messages)
        why = self._why(next_speakers(self._thread, self._limits))
        if why is None:
            return None
        self._terminated = True
        return StopMessage(content=why, source="moderator")

    async def reset(self) -> None:
        self._terminated = False

    def _why(self, following: Next) -> str | None:
        raise NotImplementedError


class Done(_ByTurnOrder):
    """Ends the chat where the turn order knows no further speaker."""

    def _why(self, following: Next) -> str | None:
        return None if following.stop is None else STOP_WORDS[following.stop]


class ApprovalGate(_ByTurnOrder):
    """Ends a run of the team, never a turn, where a human has to decide."""

    def _why(self, following: Next) -> str | None:
        return "a human decides" if following.speakers == ("human",) else None


def build_team(
    setting: ChatContext,
    models: Models,
    judge: JudgeProtocol,
    on_failure: Callable[[Exception], None],
    pause: TerminationCondition,
) -> tuple[SelectorGroupChat, Selector]:
    """A fresh team; after an error or a cancellation AutoGen's are not to be used again.

    `pause` ends its run after a turn, wherever the chat stands.
    """
    # AutoGen logs every exception with a traceback; ours reach the user by `on_failure`.
    for name in ("autogen_core", "autogen_agentchat"):
        logging.getLogger(name).addHandler(logging.NullHandler())
    selector = models.client("selector")
    moderator = Selector(setting.limits, selector, on_failure)
    roles = [RoleAgent(role, setting, models.client(role), on_failure) for role in setting.roles]
    team = SelectorGroupChat(
        [*roles, Executor(judge, setting.baseline, setting.limits, on_failure)],
        model_client=selector,
        selector_func=moderator.next_speaker,
        allow_repeated_speaker=True,
        # Unused as long as the moderator always answers, but AutoGen fills it: keep it short.
        model_context=BufferedChatCompletionContext(buffer_size=2),
        termination_condition=Done(setting.limits) | ApprovalGate(setting.limits) | pause,
        custom_message_types=[*MESSAGE_TYPES.values(), RepairEvent, DoubtEvent],
        emit_team_events=True,
    )
    return team, moderator
