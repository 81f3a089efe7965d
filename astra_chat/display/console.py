"""Text on the terminal: of what others say nothing is markup, a control code, or unseen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from astra_chat.tools.text import UNSEEN, plain

WIDTH = 100


class PlainConsole(Console):
    """A console on which text stays text; styles and live bars are rich's own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not UNSEEN.search(segment.text):
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def console(file: TextIO | None = None) -> Console:
    """The console for everything that is shown of a run."""
    out = file or sys.stdout
    wide = None if out.isatty() else WIDTH
    colour = out.isatty() and not os.environ.get("NO_COLOR")
    return PlainConsole(
        file=out, width=wide, markup=False, highlight=False, emoji=False, no_color=not colour,
        color_system="auto" if colour else None, legacy_windows=False,
    )  # fmt: skip
