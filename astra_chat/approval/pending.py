"""A run that waits for a human's decision: read from its transcript, answered into it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_chat.agents.approval import Question, question
from astra_chat.agents.turns import Turn
from astra_chat.tools.errors import BadInput
from astra_chat.tools.text import one_line
from astra_chat.transcript.reader import Transcript, incompleteness, read
from astra_chat.transcript.recorded_task import baseline_text
from astra_chat.transcript.turns import events_of, state_of, texts
from astra_chat.transcript.writer import Writer


@dataclass(frozen=True)
class Waiting:
    """The run and what it waits for."""

    transcript: Transcript
    question: Question


def waiting(path: Path) -> Waiting:
    """Raises BadInput where it is no transcript, or nothing in it waits for a decision."""
    transcript = read(path)
    baseline = baseline_text(transcript)
    asked = question(state_of(transcript.records), baseline)
    if asked is not None:
        return Waiting(transcript, asked)
    if transcript.ended is not None and transcript.ended.question:
        raise BadInput(
            f"{transcript.path}: the run waits for an answer in its mailbox, not for a decision:"
            f" question {one_line(transcript.ended.question)}"
        )
    if transcript.ended is not None and transcript.ended.reason == "waiting":
        raise BadInput(
            f"{transcript.path}: the candidate must be confirmed on fresh seeds before a decision:"
            f" astra-chat run --resume {transcript.path}"
        )
    if (lacking := incompleteness(transcript)) is not None:
        raise BadInput(lacking)
    raise BadInput(f"{transcript.path}: no decision is pending")


def record(run: Waiting, answer: Turn) -> None:
    """Append the human's turn. Raises BadInput if the run continues elsewhere in the meantime."""
    writer = Writer.go_on(run.transcript)
    try:
        writer.append(*events_of(answer, set(texts(run.transcript.records))))
    finally:
        writer.close()
