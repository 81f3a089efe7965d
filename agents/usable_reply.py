"""The turn that a well-formed reply amounts to, or what is wrong with it: pure functions of the
state, for a role's agent and for whoever answers in its place (a mailbox)."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from astra_chat.agents.constants import unreadable_marks
from astra_chat.agents.edits import kernel_of
from astra_chat.agents.prompt import ChatContext, source_to_edit
from astra_chat.agents.reply_errors import malformed, objection, unusable_source
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
)


def payload_of(role: RoleName, answer: AnyReply, context: ChatContext, state: RunState) -> Payload:
    """The turn of a role's reply. Raises ValueError, as text for the model, for what cannot be used
    now."""
    reason = objection(answer, context.task) or _out_of_turn(role, answer, state)
    if reason is not None:
        raise ValueError(reason)
    payload = _payload(role, answer, context, state)
    if isinstance(payload, Kernel) and (reason := unusable_source(payload.source)):
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
    raise ValueError(f"'{name}' may not act now; only {' or '.join(legal)} may")


def _out_of_turn(role: RoleName, answer: AnyReply, state: RunState) -> str | None:
    """What is wrong with a plan instead of a kernel, or a kernel instead of a plan."""
    if role != "single" or isinstance(answer.reply, Pass):
        return None
    expected = "plan" if acts_as(role, state) == "planner" else "kernel"
    if isinstance(answer.reply, Plan) == (expected == "plan"):
        return None
    return f"a {expected} is expected now"


def _payload(role: RoleName, answer: AnyReply, context: ChatContext, state: RunState) -> Payload:
    """Raises ValueError for edits that cannot be made."""
    match answer.reply:
        case Source(words=words, source=source):
            return Kernel(words=words, source=source)
        case Edits() as edits:
            return kernel_of(edits, source_to_edit(role, context, state))
        case payload:
            return payload
