"""Bars while the judge works, on a terminal only: they leave no trace in the text of a run."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from astra_chat.display.run_view import View
from astra_chat.tools.progress import Progress as Report
from astra_chat.transcript.events import Chosen, Record


class LiveView:
    """A View with bars under it. `progress` may be called from the judge's thread."""

    def __init__(self, out: Console) -> None:
        self._view = View(out)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        if out.is_terminal:
            self._bars = Progress(
                TextColumn("     {task.description:8}", markup=False),
                BarColumn(30),
                TextColumn("{task.fields[words]}", markup=False),
                TimeElapsedColumn(),
                console=out,
                transient=True,
            )

    def show(self, record: Record) -> None:
        """Show a record; who speaks next gets a line of its own until it has spoken."""
        self._view.show(record) if self._bars is None else self._show_over(self._bars, record)

    def progress(self, report: Report) -> None:
        if self._bars is None:
            return
        if report.step not in self._tasks:
            self._tasks[report.step] = self._bars.add_task(report.step, words="")
        self._bars.update(
            self._tasks[report.step],
            total=report.total,
            completed=report.done,
            words=f"{report.done} of {report.total}, {report.text}"
            if report.total > 1
            else report.text,
        )

    def close(self) -> None:
        if self._bars is not None:
            self._bars.stop()

    def _show_over(self, bars: Progress, record: Record) -> None:
        if isinstance(record.event, Chosen):
            speaker = record.event.decision.speaker
            words = self._view.work if speaker == "executor" else "is asked"
            self._tasks["speaker"] = bars.add_task(speaker, total=None, words=words or "works")
            bars.start()
        else:
            for task in self._tasks.values():
                bars.remove_task(task)
            self._tasks.clear()
            bars.stop()
        self._view.show(record)
