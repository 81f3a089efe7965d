"""Whether a run is under way, and what it waits for: from its records and the lock on its file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from astra_chat.tools.text import one_line
from astra_chat.transcript.events import Chosen, Ended, Record, TurnEvent
from astra_chat.transcript.run_folder import PROGRESS

LOCKS = Path("/proc/locks")
MOST_BYTES = 1000
"""Bytes of the note of a judge's progress."""

State: TypeAlias = Literal["running", "waiting", "ended", "stopped", "unreadable"]
"""waiting: for a human's decision, an answer, or a judge; stopped: killed, interrupted, failed or
out of budget, can be resumed."""


def locked_inodes() -> set[int]:
    """Files that some process holds a lock on, as a run does on its transcript.

    Read from the kernel's list: a lock taken to try would keep a run from starting. A line with
    "->" is of a process that waits for the lock of the line before.
    """
    try:
        lines = LOCKS.read_text().splitlines()
    except OSError:
        return set()
    fields = [line.split() for line in lines if "FLOCK" in line and "->" not in line]
    return {int(one[5].rsplit(":", 1)[1]) for one in fields if len(one) > 5}


def state_of_run(records: Sequence[Record], running: bool) -> tuple[State, str]:
    """What a run does or waits for, or how it ended."""
    last = records[-1].event
    if running:
        return "running", doing(records)
    if not isinstance(last, Ended):
        return "stopped", "killed before it ended"
    if last.reason == "waiting":
        answer = "mailbox next" if last.question else "judge work" if last.job else "approve"
        return "waiting", f"{last.words} (astra-chat {answer})"
    over = last.reason not in ("interrupted", "budget", "error")
    return ("ended" if over else "stopped"), last.words


def progress_of(transcript: Path) -> str:
    """How far the judge of a run under way is, in one line; "" while it does not work."""
    note = transcript.parent / PROGRESS
    try:
        if note.is_symlink() or not note.is_file() or note.stat().st_size > MOST_BYTES:
            return ""
        return one_line(note.read_text(errors="replace"))
    except OSError:
        return ""


def doing(records: Sequence[Record]) -> str:
    """What a run under way waits for."""
    for record in reversed(records):
        if isinstance(record.event, TurnEvent | Ended):
            break
        if isinstance(record.event, Chosen):
            speaker = record.event.decision.speaker
            if speaker == "executor":
                return "the judge is working"
            if speaker == "human":
                return "waiting for the human's decision"
            return f"waiting for the {speaker}'s reply"
    return "choosing the next speaker"
