"""What a run leaves behind, and why its chat ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from astra_chat.mailbox.questions import Question
from astra_chat.transcript.events import EndReason
from astra_chat.transcript.summary import RunSummary


@dataclass(frozen=True)
class RunResult:
    """What a run left behind."""

    transcript: Path
    """Beside it lie, where a candidate was accepted, best.cu and best/."""
    summary: RunSummary
    resume_with: str
    """The command that resumes it."""
    question: Path | None = None
    """In a mailbox, where the run waits for its answer."""
    job: Path | None = None
    """In the run's folder, where it waits for its result."""

    @property
    def folder(self) -> Path:
        return self.transcript.parent


@dataclass(frozen=True)
class End:
    """Why a chat ends."""

    reason: EndReason
    note: str = ""
    error: Exception | None = None
    question: Question | None = None
    """Whose answer is awaited."""
    job: Path | None = None
    """The folder of the job whose result is awaited."""
