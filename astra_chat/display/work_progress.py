"""How far a command that judges is, on stderr: bars on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.live import Live

from astra_chat.display.console import console
from astra_chat.display.notes import note
from astra_chat.display.step_bars import Bars
from astra_chat.tools.progress import Progress

EVERY_S = 20.0
"""Between two lines where there is no terminal."""


@dataclass
class _Lines:
    """A line every EVERY_S seconds: what is quick is silent."""

    last: float = field(default_factory=time.monotonic)

    def update(self, report: Progress) -> None:
        if report.remark:
            note(report.remark)
            return
        now = time.monotonic()
        if now - self.last >= EVERY_S:
            self.last = now
            note(report.line)


@contextmanager
def work_progress(quiet: bool = False) -> Iterator[Callable[[Progress], None]]:
    """Yields what hears of progress, from whatever thread."""
    if quiet:
        yield lambda _: None
        return
    out = console(sys.stderr)
    if not out.is_terminal:
        yield _Lines().update
        return
    bars = Bars(out)
    live = Live(
        get_renderable=lambda: bars.moving,
        console=out,
        transient=True,
        refresh_per_second=4,
        redirect_stdout=sys.stdout.isatty(),  # a file keeps what is printed
    )
    with live:
        yield bars.update
