"""Chooses the next speaker: by rule if one is legal, by asking a model if two are.

The model's prompt is a pure function of the state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage
from autogen_core.models import AssistantMessage, ChatCompletionClient, LLMMessage, UserMessage

from astra_chat.agents.messages import SharedState
from astra_chat.agents.position import position_line
from astra_chat.agents.reply_errors import TRIES, UnusableReply, ask_again
from astra_chat.agents.role_agent import choice_of
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import Decision, next_step, speakers
from astra_chat.agents.turns import NextSpeaker, Speaker
from astra_chat.tools.text import one_line
from astra_chat.tools.types import Value


class Selector:
    """The selector function of the team.

    AutoGen's own fallback accepts any participant that the model names, legal or not. So the model
    is asked here, only legal speakers are accepted, and the decision is kept for the transcript.
    """

    def __init__(
        self,
        state: SharedState,
        client: ChatCompletionClient,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._state, self._client, self._on_failure = state, client, on_failure
        self.decisions: deque[Decision] = deque()
        """Decisions that are not yet recorded, oldest first."""

    async def next_speaker(self, messages: Sequence[BaseAgentEvent | BaseChatMessage]) -> str:
        """Name of the next speaker. Called by the team after every turn that does not end it."""
        try:
            decision = await self._decide(self._state.now)
        except Exception as error:
            self._on_failure(error)
            raise
        self.decisions.append(decision)
        return decision.speaker

    async def _decide(self, state: RunState) -> Decision:
        step = next_step(state)
        legal = speakers(step)
        if not legal:
            raise RuntimeError(f"there is no speaker after the end of the chat: {step}")
        if len(legal) == 1:
            return Decision(speaker=legal[0], by="rule", legal=legal)
        prompt: list[LLMMessage] = [UserMessage(content=question(state, legal), source="user")]
        rejected: list[str] = []
        for _ in range(TRIES):
            reply, choice = await self._ask(prompt, legal)
            if not isinstance(choice, _Rejection):
                return Decision(speaker=choice, by="model", legal=legal, rejected=tuple(rejected))
            rejected.append(choice.reason)
            prompt += [
                AssistantMessage(content=reply, source="selector"),
                UserMessage(content=ask_again(choice.reason), source="user"),
            ]
        return Decision(speaker=legal[0], by="rule", legal=legal, rejected=tuple(rejected))

    async def _ask(
        self, prompt: list[LLMMessage], legal: Sequence[Speaker]
    ) -> tuple[str, Speaker | _Rejection]:
        """The model's reply, and the choice in it."""
        try:
            answer = await self._client.create(prompt, json_output=NextSpeaker)
        except UnusableReply as error:
            return error.said, _Rejection(reason=error.reason)
        try:
            return str(answer.content), choice_of(str(answer.content), legal)
        except ValueError as error:
            return str(answer.content), _Rejection(reason=str(error))


class _Rejection(Value):
    reason: str


def question(state: RunState, legal: Sequence[Speaker]) -> str:
    """The last analysis, and the roles to choose from."""
    analysis = state.analysis
    profiler = f"The profiler's analysis: {one_line(analysis.words)}\n" if analysis else ""
    return (
        "You choose which agent acts next in a team that makes a CUDA kernel faster.\n"
        f"{profiler}The planner would choose the next change; the tester would first write further "
        f"test cases. Answer with one JSON object whose 'choose' is one of: {', '.join(legal)}.\n"
        f"{position_line(state.position('selector'))}"
    )
