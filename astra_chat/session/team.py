"""The AutoGen team of one run: six speakers, a selector, and an end by the turn order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from autogen_agentchat.base import TerminationCondition
from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage, StopMessage
from autogen_agentchat.teams import SelectorGroupChat
from autogen_core.model_context import BufferedChatCompletionContext

from astra_chat.agents.executor import Executor
from astra_chat.agents.judge_protocol import JudgeProtocol
from astra_chat.agents.messages import (
    MESSAGE_TYPES,
    ContradictionEvent,
    RejectedReplyEvent,
    SharedState,
)
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.role_agent import RoleAgent
from astra_chat.agents.run_state import RunState
from astra_chat.agents.selector import Selector
from astra_chat.agents.stop_reasons import STOP_TEXTS
from astra_chat.agents.turn_order import AskHuman, Stop, next_step
from astra_chat.models.run_models import Models

STALLED = "The group chat is stopped."
"""AutoGen's stop reason if no agent speaks although the chat has not ended."""


class TurnOrder(TerminationCondition):
    """Ends a run of the team where no agent takes the next step: at the end of the chat, and where
    a human decides, for whom no team waits."""

    component_type = "termination"

    def __init__(self, state: SharedState) -> None:
        self._state = state
        self._terminated = False

    @property
    def terminated(self) -> bool:
        return self._terminated

    async def __call__(
        self, messages: Sequence[BaseAgentEvent | BaseChatMessage]
    ) -> StopMessage | None:
        match next_step(self._state.now):
            case Stop(reason=reason):
                why = STOP_TEXTS[reason]
            case AskHuman():
                why = "a human decides"
            case _:
                return None
        self._terminated = True
        return StopMessage(content=why, source="selector")

    async def reset(self) -> None:
        self._terminated = False


def build_team(
    context: ChatContext,
    state: RunState,
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
    shared, client = SharedState(state), models.client("selector")
    selector = Selector(shared, client, on_failure)
    roles = [
        RoleAgent(role, context, shared, models.client(role), on_failure) for role in context.roles
    ]
    team = SelectorGroupChat(
        [*roles, Executor(judge, context.baseline, shared, on_failure)],
        model_client=client,
        selector_func=selector.next_speaker,
        allow_repeated_speaker=True,
        # Unused as long as the selector always answers, but AutoGen fills it: keep it short.
        model_context=BufferedChatCompletionContext(buffer_size=2),
        termination_condition=TurnOrder(shared) | pause,
        custom_message_types=[*MESSAGE_TYPES.values(), RejectedReplyEvent, ContradictionEvent],
        emit_team_events=True,
    )
    return team, selector
