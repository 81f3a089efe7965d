"""Plots as SVG inside the page: drawn by matplotlib, coloured by the page's style sheet.

matplotlib, because its SVG needs no script to be read: a plot takes some 7 kB and 0.05 s, and text
stays text. plotly adds a script of 4.5 MB to every page, altair one of 0.8 MB, and without scripts
neither shows anything.
"""

from __future__ import annotations

import io
import logging
import math
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

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


# matplotlib's SVG as a page needs it: what is drawn, in a third of the bytes.
#
# Left out are what nobody sees, names that nothing refers to, and what the page's style sheet says
# of every plot. What has a clip or a style in common is in one group. Texts come last: nothing
# hides them.

DIGITS, MARK_DIGITS = 1, 2
"""Digits behind the point of a place, and of the outline of a mark, which is a few units wide."""
PAGE_STYLE = {
    "text": {
        "fill": "var(--muted)",
        "font-size": "7.5px",
        "font-family": "",
        "text-anchor": "start",
    },
    "": {"fill": "none", "stroke-linejoin": "", "stroke-linecap": ""},
}
"""What templates/style.css says of a plot's texts and of all else; empty: of any value."""
NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?")
NAMED = re.compile(r"(?<=^#).+|(?<=url\(#)[^)]+")
"""The name in `#name` and in `url(#name)`."""


def compact(svg: str, name: str, *, label: str, hints: Mapping[str, str]) -> str:
    """Returns the plot for a page. `hints`: what to show where the mouse is over the group of an
    id. All names in it begin with `name`."""
    root = ElementTree.fromstring(svg)
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]
        each.attrib = {key.rpartition("}")[2]: value for key, value in each.attrib.items()}
        each.text = each.text if (each.text or "").strip() else None
        each.tail = None
    marks = {each.get("id", ""): each for defs in root.iter("defs") for each in defs}
    drawn = list(_drawn(root, None, hints, marks))
    texts = sorted((one for one in drawn if one.tag == "text"), key=_style)
    found = Element("svg", {"class": "plot", "role": "img", "aria-label": label})
    found.set("viewBox", root.get("viewBox", ""))
    found.extend(_grouped([one for one in drawn if one.tag != "text"], ("clip-path", "style")))
    found.extend(_grouped(texts, ("style",)))
    _add_marks(found, marks, name)
    return ElementTree.tostring(found, encoding="unicode").replace(" />", "/>")


def _drawn(
    parent: Element, clip: str | None, hints: Mapping[str, str], marks: Mapping[str, Element]
) -> Iterator[Element]:
    """What is drawn in an element, without the groups around it."""
    for each in parent:
        inside = each.get("clip-path", clip)
        if each.tag == "g":
            found = list(_drawn(each, inside, hints, marks))
            hint = hints.get(each.get("id", ""))
            yield from found if hint is None or not found else [_hinted(hint, found)]
        elif each.tag not in ("defs", "metadata") and (one := _clean(each, marks)) is not None:
            if inside and one.tag != "text":
                one.set("clip-path", inside)
            yield one


def _hinted(hint: str, marks: list[Element]) -> Element:
    """Marks with a hint: in a group with their common clip, and their style where it is common."""
    group = Element("g")
    title = ElementTree.SubElement(group, "title")
    title.text = hint
    for key in ("clip-path", "style"):
        if len({one.get(key) for one in marks}) == 1 and (value := marks[0].get(key)):
            group.set(key, value)
            for one in marks:
                del one.attrib[key]
    group.extend(marks)
    return group


def _clean(element: Element, marks: Mapping[str, Element]) -> Element | None:
    """Returns a drawn element with what it needs; None where it has neither fill nor stroke."""
    own = _styles(element)
    mark = marks.get(element.get("href", "#")[1:])
    seen = own | (_styles(mark) if mark is not None else {})
    if element.tag != "text" and {seen.get("fill", "none"), seen.get("stroke", "none")} == {"none"}:
        return None
    page = PAGE_STYLE.get(element.tag, PAGE_STYLE[""])
    for key in [k for k in own if page.get(k) in ("", own[k])]:
        del own[key]
    for key in _styles(mark) if mark is not None else ():
        own.pop(key, None)
    found = Element(element.tag, {k: v for k, v in element.attrib.items() if k != "id"})
    found.attrib.pop("style", None)
    found.text = element.text
    if own:
        found.set("style", ";".join(f"{key}:{value}" for key, value in own.items()))
    if found.get("transform", "").startswith("rotate(-0 "):
        del found.attrib["transform"]
    return _rounded(found, DIGITS)


def _styles(element: Element) -> dict[str, str]:
    """Each property of an element's style."""
    parts = (one.partition(":") for one in element.get("style", "").split(";") if one.strip())
    return {key.strip(): value.strip() for key, _, value in parts}


def _style(element: Element) -> str:
    return element.get("style", "")


def _rounded(element: Element, digits: int) -> Element:
    for key in ("x", "y", "width", "height", "transform"):
        if key in element.attrib:
            element.set(key, NUMBER.sub(lambda n: _number(n[0], digits), element.attrib[key]))
    if "d" in element.attrib:
        element.set("d", _outline(element.attrib["d"], digits))
    return element


def _number(text: str, digits: int) -> str:
    return f"{round(float(text), digits) + 0:g}"


def _outline(path: str, digits: int) -> str:
    """Returns a path with rounded places; lines along an axis by its one number."""
    found, at = [], ["", ""]
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        places = [_number(n, digits) for n in NUMBER.findall(numbers)]
        x_same, y_same = (old == new for old, new in zip(at, places[-2:] or at, strict=True))
        if command == "L" and (x_same or y_same):
            if x_same and y_same:
                continue
            found.append(f"V{places[1]}" if x_same else f"H{places[0]}")
        else:
            found.append(command + " ".join(places))
        at = places[-2:] or at
    return "".join(found)


def _grouped(elements: list[Element], keys: tuple[str, ...]) -> Iterator[Element]:
    """The elements, neighbours with the same value of a key in one group that has it."""
    if not keys:
        yield from elements
        return
    for value, same in groupby(elements, lambda one: one.get(keys[0])):
        members = list(same)
        if value is None or len(members) == 1:
            yield from _grouped(members, keys[1:])
            continue
        group = Element("g", {keys[0]: value})
        for one in members:
            del one.attrib[keys[0]]
        group.extend(_grouped(members, keys[1:]))
        yield group


def _add_marks(found: Element, marks: Mapping[str, Element], name: str) -> None:
    """Add the outlines, clips and patterns that are referred to, under names of this plot."""
    new: dict[str, str] = {}
    for each in found.iter():
        for key in ("href", "clip-path", "style"):
            if (value := each.get(key)) is not None:
                value = NAMED.sub(lambda n: new.setdefault(n[0], f"{name}-{len(new)}"), value)
                each.set(key, value)
    defs = ElementTree.SubElement(found, "defs")
    for old, short in new.items():
        mark = marks[old]
        for each in mark.iter():
            each.attrib.pop("id", None)
            _rounded(each, MARK_DIGITS)
        mark.set("id", short)
        defs.append(mark)
