"""An answer held against schema and facts before it is given: what the chat would say to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from astra_chat.agents.fact_check import contradiction
from astra_chat.agents.position import position_of
from astra_chat.agents.prompt import ChatContext
from astra_chat.agents.reply_errors import malformed
from astra_chat.agents.role_agent import choice_of, payload_of
from astra_chat.agents.run_state import RunState
from astra_chat.agents.task_text import basis_of, device_text
from astra_chat.agents.turn_order import next_step, speakers
from astra_chat.agents.turns import MODEL_ROLES, REPLY_TYPES, RoleName, Speaker
from astra_chat.mailbox.answers import give, kernel_reply, refuse, require_open
from astra_chat.mailbox.files import MAX_BYTES
from astra_chat.mailbox.questions import Question
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.recorded_task import baseline_text, task_of
from astra_chat.transcript.turns import state_of
from astra_vgpu.ground.errors import BadInput

PATIENCE_S = 3.0
"""A run records a turn a moment after it has asked for the next one."""


@dataclass(frozen=True)
class Facts:
    """What the run knows at the moment of a question."""

    context: ChatContext
    state: RunState


def answer(
    question: Question,
    reply: str,
    *,
    words: str | None = None,
    answered_by: str = "",
    as_is: bool = False,
) -> str:
    """Check an answer and leave it for the run; returns what was checked, in half a sentence.

    `reply`: the reply as JSON, or with `words` a kernel's source. Raises BadInput for one that
    cannot be used, or contradicts the facts (unless `as_is`); the question stays open.
    """
    require_open(question)
    if words is not None:
        if not question.meta.kernel:
            raise BadInput(
                f"question {question.id} does not ask the {question.meta.role} for a kernel"
            )
        reply = kernel_reply(words, reply)
    if len(reply) > MAX_BYTES:
        raise BadInput(f"the answer is longer than {MAX_BYTES:,} characters")
    with _facts_of(question) as facts:
        try:
            wrong = _contradiction(question, reply, facts)
        except ValueError as error:
            refuse(question, reply, str(error), answered_by)
            raise BadInput(f"the answer cannot be used: {error}") from None
    if wrong is not None and not as_is:
        refuse(question, reply, wrong, answered_by)
        raise BadInput(
            f"the answer contradicts the facts: {wrong}; to submit it anyway, add --as-is"
        )
    give(question, reply, answered_by)
    if facts is None:
        return (
            "checked against the schema only: the run's transcript is not here, so the run"
            " will check the facts"
        )
    return "checked against the schema and the run's facts"


def _contradiction(question: Question, reply: str, facts: Facts | None) -> str | None:
    """Raises ValueError for an answer that cannot be used."""
    role = question.meta.role
    if role == "selector":
        legal = get_args(Speaker) if facts is None else speakers(next_step(facts.state))
        choice_of(reply, legal)
        return None
    try:
        parsed = REPLY_TYPES[role].model_validate_json(reply)
    except ValidationError as error:
        raise ValueError(malformed(error)) from None
    if facts is None:
        return None
    payload = payload_of(role, parsed, facts.context, facts.state)
    return contradiction(payload, facts.context, facts.state)


@contextmanager
def _facts_of(question: Question) -> Iterator[Facts | None]:
    """From the run's transcript; None where it is not here, or stands at another turn."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := _at(question)) is None and time.monotonic() < deadline:
        if not Path(question.meta.transcript).is_file():
            break
        time.sleep(0.1)
    if found is None:
        yield None
        return
    transcript, state = found
    with task_of(transcript, None) as task:
        single = transcript.options.strategy.kind == "single"
        context = ChatContext(
            task=task,
            baseline=baseline_text(transcript),
            tier=transcript.options.tier,
            device=device_text(transcript.header.device),
            basis=basis_of(transcript.header.device),
            roles=("single",) if single else MODEL_ROLES,
        )
        yield Facts(context, state)


def _at(question: Question) -> tuple[Transcript, RunState] | None:
    """The transcript and its state, if that is where the question was asked."""
    try:
        transcript = read(Path(question.meta.transcript))
    except BadInput:
        return None
    state = state_of(transcript.records)
    same = transcript.records[0].run == question.meta.run
    here = _position(question.meta.role, state) == question.meta.position
    return (transcript, state) if same and here and _may_act(question, state) else None


def _position(role: str, state: RunState) -> object:
    return state.position("selector") if role == "selector" else position_of(_role(role), state)


def _role(name: str) -> RoleName:
    return next(role for role in REPLY_TYPES if role == name)


def _may_act(question: Question, state: RunState) -> bool:
    legal, role = speakers(next_step(state)), question.meta.role
    return len(legal) > 1 if role == "selector" else role in legal
