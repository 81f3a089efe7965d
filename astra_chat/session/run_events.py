"""Callbacks of a run to its caller."""

from __future__ import annotations

from typing import Protocol

from astra_chat.tools.progress import Progress
from astra_chat.transcript.events import Record


class RunEvents(Protocol):
    """Listens to a run. All calls come from the thread of the chat."""

    def record(self, record: Record) -> None:
        """A record of the transcript, once it is in the file."""

    def progress(self, report: Progress) -> None:
        """How far the judge is."""

    def notice(self, text: str) -> None:
        """A line for the user that is no part of the record."""


class Silent:
    """Listens to nothing; a base for who listens to some."""

    def record(self, record: Record) -> None:
        """Nothing to do."""

    def progress(self, report: Progress) -> None:
        """Nothing to do."""

    def notice(self, text: str) -> None:
        """Nothing to do."""
