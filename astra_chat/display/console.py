"""Text on the terminal: of what others say nothing is markup, a control code, or unseen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Literal, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from astra_chat.tools.text import UNSEEN, plain

WIDTH = 100


class PlainConsole(Console):
    """A console on which text stays text; styles and live bars are rich's own."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Off a terminal no line is cut off."""
        how.setdefault("crop", self.is_terminal)
        super().print(*objects, **how)

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
    terminal = out.isatty()
    colors = _colors(terminal)
    return PlainConsole(
        file=out,
        width=_width(terminal),
        markup=False,
        highlight=False,
        emoji=False,
        no_color=colors is None,
        color_system=colors,
        force_terminal=terminal,
        legacy_windows=False,
    )


def _colors(terminal: bool) -> Literal["auto", "standard"] | None:
    """Returns the colours of a console by the conventions of no-color.org and force-color.org: a
    variable counts if it is set and not empty; NO_COLOR wins."""
    if os.environ.get("NO_COLOR"):
        return None
    if os.environ.get("FORCE_COLOR"):
        return "auto" if terminal else "standard"
    return "auto" if terminal else None


def _width(terminal: bool) -> int | None:
    """$COLUMNS, else the terminal's own (None), else that of a file."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    return None if terminal else WIDTH
