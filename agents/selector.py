"""Chooses the next speaker: by rule where one is legal, by asking a model where two are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from autogen_agentchat.messages import BaseAgentEvent, BaseChatMessage
from autogen_core.models import AssistantMessage, ChatCompletionClient, LLMMessage, UserMessage
from pydantic import ValidationError

from astra_chat.agents.messages import SharedState
from astra_chat.agents.reply_errors import TRIES, UnusableReply, ask_again, malformed
from astra_chat.agents.run_state import RunState
from astra_chat.agents.selector_prompt import question
from astra_chat.agents.turn_order import Decision, next_step, speakers
from astra_chat.agents.turns import NextSpeaker, Speaker
from astra_chat.tools.types import Value


class Selector:
    """The selector function of the team.

    AutoGen's own fallback takes any participant that the model names, legal or not; so the model is
    asked here, its answer is held to the legal speakers, and the decision is kept for the record.
    """

    def __init__(
        self,
        state: SharedState,
        client: ChatCompletionClient,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._state, self._client, self._on_failure = state, client, on_failure
        self.decisions: deque[Decision] = deque()
        """Decisions that nobody has recorded yet, oldest first."""

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
            raise RuntimeError(f"asked for a speaker after the end: {step}")
        if len(legal) == 1:
            return Decision(speaker=legal[0], by="rule", legal=legal)
        prompt: list[LLMMessage] = [UserMessage(content=question(state, legal), source="user")]
        rejected: list[str] = []
        for _ in range(TRIES):
            said, choice = await self._ask(prompt, legal)
            if not isinstance(choice, _Refusal):
                return Decision(speaker=choice, by="model", legal=legal, rejected=tuple(rejected))
            rejected.append(choice.words)
            prompt += [
                AssistantMessage(content=said, source="selector"),
                UserMessage(content=ask_again(choice.words), source="user"),
            ]
        return Decision(speaker=legal[0], by="rule", legal=legal, rejected=tuple(rejected))

    async def _ask(
        self, prompt: list[LLMMessage], legal: Sequence[Speaker]
    ) -> tuple[str, Speaker | _Refusal]:
        """What the model said, and the choice in it."""
        try:
            answer = await self._client.create(prompt, json_output=NextSpeaker)
        except UnusableReply as error:
            return error.said, _Refusal(words=error.reason)
        return str(answer.content), _read(str(answer.content), legal)


class _Refusal(Value):
    words: str


def _read(said: str, legal: Sequence[Speaker]) -> Speaker | _Refusal:
    try:
        name = NextSpeaker.model_validate_json(said).choose
    except ValidationError as error:
        return _Refusal(words=malformed(error))
    for speaker in legal:
        if name == speaker:
            return speaker
    return _Refusal(words=f"'{name}' may not speak now, only {' or '.join(legal)}")
