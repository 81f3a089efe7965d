"""A role that a model plays: a bounded prompt, a typed reply, and retries of unusable replies."""

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

from astra_chat.agents.constants import unreadable_marks
from astra_chat.agents.edits import kernel_of
from astra_chat.agents.fact_check import ask_to_check, contradiction
from astra_chat.agents.messages import (
    MESSAGE_TYPES,
    ContradictionEvent,
    RejectedReplyEvent,
    SharedState,
)
from astra_chat.agents.prompt import ChatContext, source_to_edit, turn_prompt
from astra_chat.agents.reply_errors import (
    STARTS,
    TRIES,
    UnusableReply,
    ask_again,
    malformed,
    objection,
    unfenced,
    unusable_language,
    unusable_source,
)
from astra_chat.agents.roles import instructions
from astra_chat.agents.run_state import RunState
from astra_chat.agents.turn_order import acts_as
from astra_chat.agents.turns import (
    AnyReply,
    Edits,
    Kernel,
    NextSpeaker,
    Pass,
    Payload,
    Plan,
    RoleName,
    Source,
    Speaker,
    reply_type,
)
from astra_vgpu.ground.errors import MissingDependency


def payload_of(role: RoleName, answer: AnyReply, context: ChatContext, state: RunState) -> Payload:
    """The turn of a role's reply. Raises ValueError, as text for the model, for what cannot be used
    now."""
    reason = objection(answer, context.task) or _out_of_turn(role, answer, state)
    if reason is not None:
        raise ValueError(reason)
    payload = _payload(role, answer, context, state)
    if isinstance(payload, Kernel):
        found = unusable_language(payload.source, context.task, state.limits.languages)
        if reason := unusable_source(payload.source) or found:
            raise ValueError(reason)
    if isinstance(payload, Kernel) and state.limits.tune:
        if reason := unreadable_marks(payload.source):
            raise ValueError(reason)
    return payload


def choice_of(reply: str, legal: Sequence[Speaker]) -> Speaker:
    """The speaker that a selector's reply names. Raises ValueError, as text for the model."""
    try:
        name = NextSpeaker.model_validate_json(reply).choose
    except ValidationError as error:
        raise ValueError(malformed(error)) from None
    for speaker in legal:
        if name == speaker:
            return speaker
    raise ValueError(f"'{name}' may not act at this point; only {' or '.join(legal)} may")


def _out_of_turn(role: RoleName, answer: AnyReply, state: RunState) -> str | None:
    """What is wrong with a plan instead of a kernel, or a kernel instead of a plan."""
    if role != "single" or isinstance(answer.reply, Pass):
        return None
    expected = "plan" if acts_as(role, state) == "planner" else "kernel"
    if isinstance(answer.reply, Plan) == (expected == "plan"):
        return None
    return f"a {expected} is expected at this point"


def _payload(role: RoleName, answer: AnyReply, context: ChatContext, state: RunState) -> Payload:
    """Raises ValueError for edits that cannot be made."""
    match answer.reply:
        case Source(words=words, source=source):
            return Kernel(words=words, source=unfenced(source))
        case Edits() as edits:
            return kernel_of(edits, source_to_edit(role, context, state))
        case payload:
            return payload


DESCRIPTIONS: dict[RoleName, str] = {
    "tester": "writes further test cases",
    "planner": "chooses the next change",
    "coder": "writes the candidate that the plan asks for",
    "fixer": "fixes a candidate that failed",
    "profiler": "explains what limits a candidate's speed",
    "single": "plans, writes and fixes alone",
}


@dataclass(frozen=True)
class _Answer:
    """A reply that can be used."""

    payload: Payload
    usage: RequestUsage | None


class RoleAgent(AssistantAgent):
    """An AssistantAgent whose prompt is `turn_prompt(role, context, state)` and nothing else.

    Exceptions go to `on_failure` before they reach AutoGen, which would keep only their text.
    """

    def __init__(
        self,
        role: RoleName,
        context: ChatContext,
        state: SharedState,
        client: ChatCompletionClient,
        on_failure: Callable[[Exception], None],
    ) -> None:
        super().__init__(
            role,
            client,
            description=DESCRIPTIONS[role],
            system_message=instructions(role, context.basis, state.now.limits.languages),
            output_content_type=reply_type(role, context.task),
        )
        self._role, self._context, self._on_failure = role, context, on_failure
        self._state = state

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (*MESSAGE_TYPES.values(), TextMessage)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        try:
            async for item in self._take_turn(cancellation_token):
                yield item
        except Exception as error:
            self._on_failure(error)
            raise

    async def _take_turn(
        self, token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | Response, None]:
        """Rejected replies and contradictions as events, then the turn.

        Raises MissingDependency if a planner's model gives no usable reply.
        """
        acting, reason = self._acts_as(), ""
        self._output_content_type = reply_type(self._role, self._context.task, acting)
        plans = acting == "planner"
        for _ in range(STARTS if plans else 1):
            await self.model_context.clear()
            async for item in self._ask_until_usable(token):
                yield item
                if isinstance(item, Response):
                    return
                if isinstance(item, RejectedReplyEvent):
                    reason = item.content
        if plans:
            raise MissingDependency(
                f"the {self._role}'s model gave no usable reply in {STARTS * TRIES} tries"
                f" (the last: {reason}); check the model, or choose another in --models"
            )
        passed = Pass(words=f"no usable reply in {TRIES} tries; the last: {reason}")
        yield self._response(_Answer(passed, None))

    async def _ask_until_usable(
        self, token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | Response, None]:
        """One prompt with its retries; no response if no reply can be used.

        A reply that contradicts the facts is sent back once. If the model repeats it, or gives
        nothing usable instead, it is accepted.
        """
        prompt = turn_prompt(self._role, self._context, self._state.now)
        disputed: tuple[_Answer, str] | None = None
        for left in reversed(range(TRIES)):
            answer, reason = await self._ask(prompt, token)
            if answer is None:
                yield RejectedReplyEvent(content=reason, source=self.name)
                prompt = ask_again(reason)
                continue
            wrong = contradiction(answer.payload, self._context, self._state.now)
            if wrong is None:
                yield self._response(answer)
                return
            last, disputed = disputed is not None or not left, (answer, wrong)
            if last:
                break
            yield ContradictionEvent(content=wrong, stands=False, source=self.name)
            prompt = ask_to_check(wrong)
        if disputed is not None:
            yield ContradictionEvent(content=disputed[1], stands=True, source=self.name)
            yield self._response(disputed[0])

    def _acts_as(self) -> RoleName:
        """The role that it plays in this turn; `single` plays three."""
        return acts_as(self._role, self._state.now)

    async def _ask(self, prompt: str, token: CancellationToken) -> tuple[_Answer | None, str]:
        """One call of the model: its turn, or what is wrong with its reply."""
        asked = TextMessage(content=prompt, source="user")
        try:
            async for item in super().on_messages_stream([asked], token):
                if isinstance(item, Response):
                    reply = cast(StructuredMessage[Any], item.chat_message)
                    return self._usable(cast(AnyReply, reply.content), reply.models_usage)
        except ValidationError as error:
            return None, malformed(error)
        except UnusableReply as error:
            unusable = AssistantMessage(content=error.said, source=self.name)
            await self.model_context.add_message(unusable)
            return None, error.reason
        raise RuntimeError("AutoGen's AssistantAgent ended its turn without a response")

    def _usable(self, answer: AnyReply, usage: RequestUsage | None) -> tuple[_Answer | None, str]:
        """The turn that a well-formed reply amounts to, or why it cannot be used."""
        try:
            payload = payload_of(self._role, answer, self._context, self._state.now)
        except ValueError as error:
            return None, str(error)
        return _Answer(payload, usage), ""

    def _response(self, answer: _Answer) -> Response:
        turn = self._state.add(self._role, answer.payload)
        turn.models_usage = answer.usage
        return Response(chat_message=turn)
