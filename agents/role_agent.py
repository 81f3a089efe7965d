"""A role that a model plays: a bounded prompt, a typed reply, and repair of replies in words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    StructuredMessage,
    TextMessage,
)
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, ChatCompletionClient, RequestUsage
from pydantic import ValidationError

from astra_chat.agents.edits import kernel_of
from astra_chat.agents.fact_check import ask_to_check, doubt
from astra_chat.agents.messages import (
    MESSAGE_TYPES,
    ContradictionEvent,
    RejectedReplyEvent,
    SharedState,
)
from astra_chat.agents.prompt import ChatContext, brief, changed
from astra_chat.agents.reply_errors import (
    STARTS,
    TRIES,
    UnusableReply,
    ask_again,
    malformed,
    objection,
    unusable_source,
)
from astra_chat.agents.roles import instructions
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import (
    REPLY_TYPES,
    AnyReply,
    Edits,
    Kernel,
    Pass,
    Payload,
    Plan,
    RoleName,
    Source,
)
from astra_chat.tools.errors import MissingDependency

DESCRIPTIONS: dict[RoleName, str] = {
    "tester": "writes further test cases",
    "planner": "chooses the next change",
    "coder": "writes the candidate that the plan asks for",
    "fixer": "repairs a candidate that failed",
    "profiler": "says why a candidate takes the time it takes",
    "single": "plans, writes and repairs alone",
}


@dataclass(frozen=True)
class _Answer:
    """A reply that can be used."""

    payload: Payload
    usage: RequestUsage | None


class RoleAgent(AssistantAgent):
    """An AssistantAgent whose prompt is `brief(role, setting, state)` and nothing else.

    Exceptions go to `on_failure` before they reach AutoGen, which would keep only their text.
    """

    def __init__(
        self,
        role: RoleName,
        setting: ChatContext,
        state: SharedState,
        client: ChatCompletionClient,
        on_failure: Callable[[Exception], None],
    ) -> None:
        super().__init__(
            role,
            client,
            description=DESCRIPTIONS[role],
            system_message=instructions(role),
            output_content_type=REPLY_TYPES[role],
        )
        self._role, self._setting, self._on_failure = role, setting, on_failure
        self._state = state

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (*MESSAGE_TYPES.values(), TextMessage)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        try:
            async for item in self._speak(cancellation_token):
                yield item
        except Exception as error:
            self._on_failure(error)
            raise

    async def _speak(
        self, token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | Response, None]:
        """What was wrong with replies, or doubted in one, then the turn.

        Raises MissingDependency where a planner's model gives nothing that can be used.
        """
        plans, reason = self._acts_as() == "planner", ""
        for _ in range(STARTS if plans else 1):
            await self.model_context.clear()
            async for item in self._exchange(token):
                yield item
                if isinstance(item, Response):
                    return
                if isinstance(item, RejectedReplyEvent):
                    reason = item.content
        if plans:
            raise MissingDependency(
                f"the {self._role}'s model gave no usable reply in {STARTS * TRIES} tries,"
                f" the last: {reason}; look at the model, or name another in --models"
            )
        passed = Pass(words=f"no usable reply in {TRIES} tries; the last: {reason}")
        yield self._response(_Answer(passed, None))

    async def _exchange(
        self, token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | Response, None]:
        """One prompt and what is said about it; without a response where nothing usable comes.

        A doubt sends a reply back once; then it stands, and so it does where nothing better comes.
        """
        words = brief(self._role, self._setting, self._state.now)
        held: tuple[_Answer, str] | None = None
        for left in reversed(range(TRIES)):
            answer, reason = await self._ask(words, token)
            if answer is None:
                yield RejectedReplyEvent(content=reason, source=self.name)
                words = ask_again(reason)
                continue
            doubted = doubt(answer.payload, self._setting, self._state.now)
            if doubted is None:
                yield self._response(answer)
                return
            last, held = held is not None or not left, (answer, doubted)
            if last:
                break
            yield ContradictionEvent(content=doubted, stands=False, source=self.name)
            words = ask_to_check(doubted)
        if held is not None:
            yield ContradictionEvent(content=held[1], stands=True, source=self.name)
            yield self._response(held[0])

    def _acts_as(self) -> RoleName:
        """The role that it plays in this turn; single takes those of three."""
        return acts_as(self._role, self._state.now)

    async def _ask(self, words: str, token: CancellationToken) -> tuple[_Answer | None, str]:
        """One call of the model: its turn, or what is wrong with its reply."""
        asked = TextMessage(content=words, source="user")
        try:
            async for item in super().on_messages_stream([asked], token):
                if isinstance(item, Response):
                    said = cast(StructuredMessage[Any], item.chat_message)
                    return self._usable(cast(AnyReply, said.content), said.models_usage)
        except ValidationError as error:
            return None, malformed(error)
        except UnusableReply as error:
            said_so = AssistantMessage(content=error.said, source=self.name)
            await self.model_context.add_message(said_so)
            return None, error.reason
        raise RuntimeError("AutoGen's AssistantAgent ended its turn without a response")

    def _out_of_turn(self, answer: AnyReply) -> str | None:
        """What is wrong with a plan in a kernel's place, or the other way round."""
        if self._role != "single" or isinstance(answer.reply, Pass):
            return None
        wanted = self._acts_as()
        if isinstance(answer.reply, Plan) == (wanted == "planner"):
            return None
        return f"a {'plan' if wanted == 'planner' else 'kernel'} is wanted now"

    def _usable(self, answer: AnyReply, usage: RequestUsage | None) -> tuple[_Answer | None, str]:
        """The turn that a well-formed reply amounts to, or why it cannot be used."""
        reason = objection(answer, self._setting.task) or self._out_of_turn(answer)
        if reason is not None:
            return None, reason
        try:
            payload = self._payload(answer)
        except ValueError as error:
            return None, str(error)
        if isinstance(payload, Kernel) and (reason := unusable_source(payload.source)):
            return None, reason
        return _Answer(payload, usage), ""

    def _payload(self, answer: AnyReply) -> Payload:
        """Raises ValueError for edits that cannot be made."""
        match answer.reply:
            case Source(words=words, source=source):
                return Kernel(words=words, source=source)
            case Edits() as edits:
                return kernel_of(edits, changed(self._role, self._setting, self._state.now))
            case payload:
                return payload

    def _response(self, answer: _Answer) -> Response:
        turn = self._state.say(self._role, answer.payload)
        turn.models_usage = answer.usage
        return Response(chat_message=turn)
