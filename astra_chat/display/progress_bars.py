"""What moves while a run works, on a terminal only: the table of rounds, what is being done, and
bars of the judge's steps. Nothing of it is left in the text of a run."""

from __future__ import annotations

import sys
import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from astra_chat.agents.turns import Speaker
from astra_chat.display.run_board import board, doing
from astra_chat.display.run_view import View
from astra_chat.display.step_bars import Bars
from astra_chat.tools.progress import Progress as Report
from astra_chat.transcript.events import Chosen, Record

OTHER_ROWS = 16
"""Rows of the screen that the table of rounds leaves to the text above it."""


class LiveView:
    """A View with the table of rounds and bars under it. `progress` may be called from the judge's
    thread."""

    def __init__(self, out: Console, verbose: bool = False) -> None:
        """`verbose`: the roles' whole text on a terminal, too; elsewhere it is never shortened."""
        self._out = out
        self._view = View(out, brief=out.is_terminal and not verbose)
        self._bars = Bars(out)
        self._speaker: Speaker = "user"
        self._since = time.monotonic()
        self._live: Live | None = None

    def show(self, record: Record) -> None:
        """Show a record; while somebody works, the moving part is under the text."""
        if not self._out.is_terminal:
            self._view.show(record)
            return
        event = record.event
        if isinstance(event, Chosen):
            self._view.show(record)
            self._speaker, self._since = event.decision.speaker, time.monotonic()
            if self._speaker != "human":  # who is asked in the terminal
                self._begin()
            return
        self.close()
        self._bars.clear()
        self._view.show(record)

    def progress(self, report: Report) -> None:
        if self._out.is_terminal:
            self._bars.update(report)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
        self._live = None

    def _begin(self) -> None:
        """A new one each time: rich's moves the cursor up by what it had drawn before."""
        self.close()
        self._live = Live(
            get_renderable=self._moving,
            console=self._out,
            transient=True,
            refresh_per_second=4,
            redirect_stderr=sys.stderr.isatty(),  # a file keeps what is printed
        )
        self._live.start()

    def _moving(self) -> RenderableType:
        seconds = int(time.monotonic() - self._since)
        state = self._view.state
        words = f"now ({seconds // 60}:{seconds % 60:02d}): {doing(state, self._speaker)}"
        now = Text(words, "bold", no_wrap=True, overflow="ellipsis")
        table = board(state, self._out.height - OTHER_ROWS)
        return Group(Text(""), *([table] if state.baseline else []), now, self._bars.moving)
