"""Text on the terminal: of what others say, nothing is markup and nothing a control code."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

WIDTH = 100
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]"
)
"""Control codes but tab and line feed, and what turns the direction of writing."""


def plain(text: str) -> str:
    """The text with control codes spelt out: a terminal that shows it does nothing else."""
    return CONTROLS.sub(lambda found: f"\\x{ord(found[0]):02x}", text.replace("\r\n", "\n"))


class PlainConsole(Console):
    """A console on which text stays text; styles and live bars are rich's own."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or not CONTROLS.search(segment.text):
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
