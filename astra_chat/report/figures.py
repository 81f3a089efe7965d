"""Plots as SVG inside the page: drawn by matplotlib, coloured by the page's style sheet.

matplotlib, because its SVG needs no script to be read: a plot takes some 7 kB and 0.05 s, and text
stays text. plotly adds a script of 4.5 MB to every page, altair one of 0.8 MB, and without scripts
neither shows anything.
"""

from __future__ import annotations

import io
import logging
import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from astra_chat.report.compact_svg import compact
from astra_chat.tools.text import plain
from astra_chat.tools.types import Basis

# It says on stderr that it looks for fonts, that a letter is in none, that a number is too large.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="matplotlib")

INK, MUTED, GRID, PAPER = "#010101", "#010102", "#010103", "#010104"
BASELINE, BEST, GOOD, TIE, BAD = "#010105", "#010106", "#010107", "#010108", "#010109"
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--line",
    PAPER: "--paper",
    BASELINE: "--baseline",
    BEST: "--best",
    GOOD: "--good",
    TIE: "--tie",
    BAD: "--bad",
}
"""Stand-ins for colours, which the page replaces by variables of its style sheet: it has two
themes."""
SERIES = tuple(f"#0102{n:02x}" for n in range(8))
VARIABLES |= {color: f"--series-{n}" for n, color in enumerate(SERIES)}
HATCH: dict[Basis, str] = {"measured": "", "estimated": "////"}
"""Hatches of bars, by basis: what is estimated is hatched, not filled."""
LINE: dict[Basis, Literal["-", "--"]] = {"measured": "-", "estimated": "--"}

WIDTH_IN = 4.5
"""Narrow, so that its letters can be read on a phone."""
MOST_HINTS = 400
"""Marks of one plot that get a hint, at most: more than that stand too close to be pointed at."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "astra",
    "font.size": 8,
    "axes.titlesize": 8,
    "hatch.linewidth": 0.8,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.bottom": False,
    "ytick.left": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
}


@dataclass(frozen=True)
class Drawing:
    """A plot as the page shows it."""

    name: str
    title: str
    caption: str
    basis: Basis | None
    """None: it shows neither times nor ratios, or both kinds."""
    svg: Markup


class Plot:
    """One plot that is being drawn. All text that others wrote goes through `words`."""

    def __init__(self, name: str, title: str, height_in: float = 2.6, left_in: float = 0.5) -> None:
        """`name` is unique on the page. `left_in`: room for the labels of the vertical axis."""
        self.name, self.title, self._height_in = name, title, height_in
        self._hints: list[str] = []
        with mpl.rc_context(STYLE):
            self._figure = Figure(figsize=(WIDTH_IN, height_in))
            # matplotlib's layout engines draw every plot twice.
            self._figure.subplots_adjust(left_in / WIDTH_IN, 0.45 / height_in, 0.965, 0.95)
            self.axes: Axes = self._figure.add_subplot()

    def hint(self, text: str) -> str | None:
        """A `gid` for one mark: the text is shown where the mouse is over it."""
        if len(self._hints) >= MOST_HINTS:
            return None
        self._hints.append(text)
        return f"hint{len(self._hints) - 1}"

    def text(self, said: str, x: float, y: float, aside: tuple[int, int]) -> None:
        """Write a text beside a point; `aside` is in points of type."""
        self.axes.annotate(
            words(said), (x, y), aside, textcoords="offset points", color=INK, fontsize=7.5
        )

    def legend(self, columns: int = 3) -> None:
        """Draw the legend above the plot: every label once."""
        handles, labels = self.axes.get_legend_handles_labels()
        once = dict(zip(reversed(labels), reversed(handles), strict=True))
        names = list(dict.fromkeys(labels))
        lines = math.ceil(len(names) / columns)
        self._figure.subplots_adjust(top=1 - (0.12 + 0.17 * lines) / self._height_in)
        with mpl.rc_context(STYLE):
            self._figure.legend(
                [once[name] for name in names],
                names,
                loc="upper left",
                ncols=columns,
                borderaxespad=0,
            )

    def drawing(self, caption: str, basis: Basis | None) -> Drawing:
        for text in self._figure.findobj(Text):
            text.set_parse_math(False)  # The name of a run may hold dollar signs.
        out = io.StringIO()
        meta: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
        with mpl.rc_context(STYLE):
            self._figure.savefig(out, format="svg", metadata=meta)
        return Drawing(self.name, self.title, caption, basis, self._inline(out.getvalue()))

    def _inline(self, text: str) -> Markup:
        """Returns matplotlib's file as a part of the page."""
        label = f"{self.title}; the figures are in the tables of this page"
        hints = {f"hint{number}": words(hint, 300) for number, hint in enumerate(self._hints)}
        text = text[text.index("<svg") :]
        for color, variable in VARIABLES.items():
            text = text.replace(color, f"var({variable})")
        return Markup(compact(text, self.name, label=label, hints=hints))


def words(text: str, most: int = 60) -> str:
    """Others' text in a plot: one line, nothing unseen, not endless."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= most or most <= 0 else f"{line[: most - 1]}…"
