"""What `astra-chat run` prints during a run and at its end: live text, its end, or JSON."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Protocol

from astra_chat.display.console import console
from astra_chat.display.notes import note
from astra_chat.display.progress_bars import LiveView
from astra_chat.display.run_view import View
from astra_chat.tools.progress import Progress
from astra_chat.transcript.events import BROKEN_OFF, Record
from astra_chat.transcript.run_folder import TRANSCRIPT
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

    def __init__(self, verbose: bool = False, *, patch: bool = False) -> None:
        self._view, self._patch = LiveView(console(), verbose), patch

    def record(self, record: Record) -> None:
        self._view.show(record)

    def progress(self, report: Progress) -> None:
        self._view.progress(report)

    def close(self) -> None:
        self._view.close()

    def end(self, summary: RunSummary, transcript: Path) -> None:
        for line in next_steps(summary, transcript, patch=self._patch):
            print(line)
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


def show_for(
    as_json: bool, quiet: bool, verbose: bool = False, *, patch: bool = False
) -> OutputMode:
    """`patch`: a patch is made of the run next."""
    return Json() if as_json else Quiet() if quiet else Live(verbose, patch=patch)


def next_steps(summary: RunSummary, transcript: Path, *, patch: bool = False) -> list[str]:
    """Commands for a run that has ended; not the one for a `patch` where that is made next."""
    if summary.ended is None or summary.ended.reason in (*BROKEN_OFF, "baseline_failed"):
        return []
    run = str(transcript.parent if transcript.name == TRANSCRIPT else transcript)
    best = summary.best
    changes = ["--diff", "baseline", best.candidate] if best else []
    what = "what the winner changes" if best else "everything that was said"
    commands = [["report", run], ["replay", run, *changes]]
    if not patch:
        commands.append(["optimize", "YOUR.cu"])
        what += "; a patch for a kernel of your own"
    return [
        f"next: the run as a page; {what}",
        *(f"  {shlex.join(['astra-chat', *words])}" for words in commands),
    ]


def print_json(summary: RunSummary, transcript: Path) -> None:
    """The summary and where its transcript lies; field `schema` names the form."""
    document = {**summary.model_dump(mode="json"), "transcript": str(transcript)}
    print(json.dumps(document, indent=2))
