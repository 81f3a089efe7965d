"""What `astra-chat run` prints during a run and at its end: live text, its end, or JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

from astra_chat.display.console import console
from astra_chat.display.notes import note
from astra_chat.display.progress_bars import LiveView
from astra_chat.display.run_view import View
from astra_chat.tools.progress import Progress
from astra_chat.transcript.events import Record
from astra_chat.transcript.summary import RunSummary


class OutputMode(Protocol):
    """A way to show a run: it listens to the run's events, and prints its end."""

    def record(self, record: Record) -> None: ...
    def progress(self, report: Progress) -> None: ...
    def notice(self, text: str) -> None: ...
    def close(self) -> None: ...
    def end(self, summary: RunSummary, transcript: Path) -> None: ...


class Json:
    """One document at the end, nothing before it on stdout."""

    def record(self, record: Record) -> None:
        """Nothing is shown on the way."""

    def progress(self, report: Progress) -> None:
        """Nothing is shown on the way."""

    def notice(self, text: str) -> None:
        note(text)

    def close(self) -> None:
        """Nothing is open."""

    def end(self, summary: RunSummary, transcript: Path) -> None:
        print_json(summary, transcript)


class Live(Json):
    """Everything, as it comes."""

    def __init__(self) -> None:
        self._view = LiveView(console())

    def record(self, record: Record) -> None:
        self._view.show(record)

    def progress(self, report: Progress) -> None:
        self._view.progress(report)

    def close(self) -> None:
        self._view.close()

    def end(self, summary: RunSummary, transcript: Path) -> None:
        print(f"transcript: {transcript}")


class Quiet(Json):
    """The table and the last words only."""

    def __init__(self) -> None:
        self._view = View(console(), quiet=True)

    def record(self, record: Record) -> None:
        self._view.show(record)

    def close(self) -> None:
        self._view.close()

    def end(self, summary: RunSummary, transcript: Path) -> None:
        print(f"transcript: {transcript}")


def show_for(as_json: bool, quiet: bool) -> OutputMode:
    return Json() if as_json else Quiet() if quiet else Live()


def print_json(summary: RunSummary, transcript: Path) -> None:
    """The summary and where its transcript lies; field `schema` names the form."""
    document = {**summary.model_dump(mode="json"), "transcript": str(transcript)}
    print(json.dumps(document, indent=2))
