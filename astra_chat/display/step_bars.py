"""Bars of the judge's steps."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from astra_chat.tools.progress import Progress as Report


class Bars:
    """A bar for each step of the judge that is under way."""

    def __init__(self, out: Console) -> None:
        self.shown = Progress(
            TextColumn("  {task.description:8}", markup=False),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[words]}", markup=False),
            console=out,
        )
        self._tasks: dict[str, TaskID] = {}
        self._remark = ""

    @property
    def moving(self) -> RenderableType:
        """The bars, below what is known of the candidate before its verdict."""
        if not self._remark:
            return self.shown
        return Group(Text(f"  {self._remark}", no_wrap=True, overflow="ellipsis"), self.shown)

    def update(self, report: Report) -> None:
        """A step that begins ends those before it."""
        if report.remark:
            self._remark = report.remark
            return
        if report.step not in self._tasks:
            self._end_steps()
            self._tasks[report.step] = self.shown.add_task(report.step, words="")
        task = self._tasks[report.step]
        self.shown.update(task, total=report.total, completed=report.done, words=report.text)

    def clear(self) -> None:
        """Forget the candidate."""
        self._remark = ""
        self._end_steps()

    def _end_steps(self) -> None:
        for task in self._tasks.values():
            self.shown.remove_task(task)
        self._tasks.clear()
