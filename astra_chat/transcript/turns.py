"""Turns of the chat as events of a transcript, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from astra_chat.agents.run_state import RunState
from astra_chat.agents.run_state import state_of as folded
from astra_chat.agents.turns import Kernel, Payload, Turn
from astra_chat.tools.evaluation import Evaluation
from astra_chat.transcript.events import (
    Blob,
    BuildDone,
    ChatMessage,
    Chosen,
    Contradiction,
    Ended,
    Header,
    Judged,
    Proposed,
    Record,
    RejectedReply,
    Resumed,
    TurnEvent,
)
from astra_chat.transcript.spending import ModelCall, Spent


def texts(records: Iterable[Record]) -> dict[str, str]:
    """Every stored text by its sha256."""
    events = (record.event for record in records)
    return {event.sha256: event.text for event in events if isinstance(event, Blob)}


def finished(records: Iterable[Record]) -> list[Record]:
    """The records of finished turns: without ends, resumptions, and what is left of turns that a
    kill or an interruption broke off. Equal for a run that was resumed and one that was not."""
    kept: list[Record] = []
    half: list[Record] = []
    for record in records:
        match record.event:
            case Chosen() | RejectedReply() | Contradiction() | ModelCall():
                half.append(record)
            case Resumed() | Spent() | Ended():
                half.clear()
            case ChatMessage() | Proposed() | BuildDone() | Judged():
                kept += [*half, record]
                half.clear()
            case _:
                kept.append(record)
    return kept


def turns_of(records: Iterable[Record]) -> list[Turn]:
    """The typed thread of a chat, as the agents had it."""
    everything = list(records)
    stored = texts(everything)
    return [
        turn(record.event, stored)
        for record in everything
        if isinstance(record.event, ChatMessage | Proposed | BuildDone | Judged)
    ]


def evaluations_of(records: Iterable[Record]) -> list[Evaluation]:
    """Returns all evaluations of a run, in order."""
    return [record.event.evaluation for record in records if isinstance(record.event, Judged)]


def state_of(records: Sequence[Record]) -> RunState:
    """The state of the recorded run, by its last options."""
    options = [r.event.options for r in records if isinstance(r.event, Header | Resumed)]
    return folded(turns_of(records), options[-1].limits)


def turn(event: TurnEvent, stored: dict[str, str]) -> Turn:
    payload: Payload
    match event:
        case ChatMessage(speaker=speaker, payload=payload):
            return Turn(speaker, payload)
        case Proposed(speaker=speaker, words=words, sha256=sha, edits=edits):
            return Turn(speaker, Kernel(words=words, source=stored[sha], edits=edits))
        case BuildDone(report=report):
            return Turn("executor", report)
        case Judged(evaluation=evaluation):
            return Turn("executor", evaluation)
