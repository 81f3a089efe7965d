"""How far a command that judges is, on stderr: bars on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import threading
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
    """A line every EVERY_S seconds, also where nothing is reported that long: what is quick is
    silent."""

    every_s: float
    _began: float = field(default_factory=time.monotonic)
    _latest: Progress | None = None
    _ended: threading.Event = field(default_factory=threading.Event)

    def update(self, report: Progress) -> None:
        if report.remark:
            note(report.remark)
        else:
            self._latest = report

    def keep_printing(self) -> None:
        """Print where the work is, until it ends."""
        while not self._ended.wait(self.every_s):
            if report := self._latest:
                note(f"{report.line} ({time.monotonic() - self._began:.0f} s)")

    def end(self) -> None:
        self._ended.set()


@contextmanager
def work_progress(
    quiet: bool = False, every_s: float = EVERY_S
) -> Iterator[Callable[[Progress], None]]:
    """Yields what hears of progress, from whatever thread."""
    if quiet:
        yield lambda _: None
        return
    out = console(sys.stderr)
    if not out.is_terminal:
        yield from _lines(every_s)
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


def _lines(every_s: float) -> Iterator[Callable[[Progress], None]]:
    lines = _Lines(every_s)
    printing = threading.Thread(target=lines.keep_printing, daemon=True)
    printing.start()
    try:
        yield lines.update
    finally:
        lines.end()
        printing.join()
