"""A run that waits for a human's decision: read from its transcript, answered into it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_chat.agents.approval import Question, question
from astra_chat.agents.turns import Turn
from astra_chat.tools.text import one_line
from astra_chat.transcript.events import Blob, ChatMessage, Ended, Proposed
from astra_chat.transcript.reader import Transcript, incompleteness, read
from astra_chat.transcript.recorded_task import baseline_text
from astra_chat.transcript.turns import state_of, texts, turns_of
from astra_chat.transcript.writer import Writer, events_of
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class WaitingRun:
    """The run and what it waits for."""

    transcript: Transcript
    question: Question
    decided: Turn | None = None
    """A decision that the run has not used yet: another takes its place."""
    kept: int | None = None
    """Records before that decision."""


def waiting(path: Path) -> WaitingRun:
    """Raises BadInput where it is no transcript, or nothing in it waits for a decision."""
    transcript = read(path)
    baseline = baseline_text(transcript)
    asked = question(state_of(transcript.records), baseline)
    if asked is not None:
        return WaitingRun(transcript, asked)
    if (kept := _before_decision(transcript)) is not None:
        asked = question(state_of(transcript.records[:kept]), baseline)
        if asked is not None:
            return WaitingRun(transcript, asked, turns_of(transcript.records)[-1], kept)
    if transcript.ended is not None and transcript.ended.question:
        raise BadInput(
            f"{transcript.path}: the run is waiting for an answer in its mailbox, not for a"
            " decision:"
            f" question {one_line(transcript.ended.question)}"
        )
    if transcript.ended is not None and transcript.ended.job:
        raise BadInput(
            f"{transcript.path}: the run is waiting for the judge, not for a decision: job"
            f" {one_line(transcript.ended.job)[:12]}"
        )
    if transcript.ended is not None and transcript.ended.reason == "waiting":
        raise BadInput(
            f"{transcript.path}: the candidate must be confirmed on fresh seeds before a decision:"
            f" astra-chat run --resume {transcript.path}"
        )
    if (lacking := incompleteness(transcript)) is not None:
        raise BadInput(lacking)
    raise BadInput(f"{transcript.path}: no decision is pending")


def _before_decision(transcript: Transcript) -> int | None:
    """How many records stand before a decision that nothing follows yet; None if there is none."""
    kept = len(transcript.records)
    while isinstance(transcript.records[kept - 1].event, Blob | ChatMessage | Proposed):
        kept -= 1
    last = transcript.records[kept - 1].event
    decided = kept < len(transcript.records)
    return kept if decided and isinstance(last, Ended) and last.reason == "waiting" else None


def record(run: WaitingRun, answer: Turn) -> None:
    """Append the human's turn, in the place of one that the run has not used yet.

    Raises BadInput if the run continues elsewhere in the meantime.
    """
    kept = run.transcript.records[: run.kept]
    writer = Writer.go_on(run.transcript, len(kept))
    try:
        writer.append(*events_of(answer, set(texts(kept))))
    finally:
        writer.close()
