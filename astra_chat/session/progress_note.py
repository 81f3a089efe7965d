"""How far the judge of a run is, as a file in the run's folder: for whoever waits elsewhere, at its
mailbox or its list of runs. It is gone once the judge has its result."""

from __future__ import annotations

import time
from contextlib import suppress

from astra_chat.display.run_board import doing
from astra_chat.session.recorder import Recorder
from astra_chat.session.run_events import RunEvents
from astra_chat.tools.progress import Progress
from astra_chat.transcript.events import Record
from astra_chat.transcript.run_folder import PROGRESS

EVERY_S = 0.5
"""Between two notes, at least."""


class ProgressNote:
    """Listens to a run in another listener's place, and leaves the note."""

    def __init__(self, events: RunEvents) -> None:
        self._events = events
        self._recorder: Recorder | None = None
        self._written_s = float("-inf")

    def begin(self, recorder: Recorder) -> None:
        """Name the run whose state and folder these are."""
        self._recorder = recorder

    def record(self, record: Record) -> None:
        self.clear()
        self._events.record(record)

    def progress(self, report: Progress) -> None:
        self._events.progress(report)
        now = time.monotonic()
        if self._recorder is None or now - self._written_s < EVERY_S:
            return
        self._written_s = now
        work = doing(self._recorder.state, "executor")
        path = self._recorder.folder / PROGRESS
        with suppress(OSError):  # a note is not worth a run
            part = path.with_name(f"{PROGRESS}.part")
            part.unlink(missing_ok=True)
            part.write_text(f"{work}: {report.line}\n")
            part.replace(path)

    def notice(self, text: str) -> None:
        self._events.notice(text)

    def clear(self) -> None:
        """Take the note away."""
        if self._recorder is not None and self._written_s > 0:
            self._written_s = float("-inf")
            with suppress(OSError):
                (self._recorder.folder / PROGRESS).unlink(missing_ok=True)
