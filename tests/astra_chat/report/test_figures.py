"""A plot in the page takes its colours from the style sheet and says nothing in others' markup."""

from __future__ import annotations

import re
from pathlib import Path

from astra_chat.report.figures import BEST, INK, MOST_HINTS, SERIES, VARIABLES, Plot, words

STYLE = (Path(__file__).parents[3] / "astra_chat/report/templates/style.css").read_text()


def plot(name: str = "p") -> Plot:
    found = Plot(name, "A <title>")
    found.axes.plot([0, 1], [0, 1], color=BEST, label="$x_1$ <b>", gid=found.hint("<script>\u202e"))
    found.text("$y$", 0, 0, (1, 1))
    found.legend()
    return found


def test_colours_are_variables_that_the_style_sheet_sets() -> None:
    svg = plot().drawing("", None).svg
    assert "var(--best)" in svg and "var(--ink)" in svg and "#0101" not in svg
    light, dark = STYLE.split("prefers-color-scheme: dark")[:2]
    for variable in VARIABLES.values():
        assert f"{variable}: #" in light and f"{variable}: #" in dark.split("@media")[0]
    assert len({INK, BEST, *SERIES}) == 2 + len(SERIES)


def test_text_of_others_is_text() -> None:
    svg = plot().drawing("", None).svg
    assert "<script" not in svg and "<b>" not in svg and "\u202e" not in svg
    assert "<title>&lt;script&gt;\\x202e</title>" in svg
    assert "$x_1$ &lt;b&gt;" in svg and "$y$" in svg, "nothing is read as a formula"
    assert 'aria-label="A &lt;title&gt;' in svg


def test_names_are_its_own() -> None:
    """Else the marks of one plot would be drawn in another one of the page."""
    one, other = (plot(name).drawing("", None).svg for name in ("a", "b"))
    ids = [set(re.findall(r'\bid="([^"]+)"', svg)) for svg in (one, other)]
    assert ids[0] and not ids[0] & ids[1]
    for svg, own in zip((one, other), ids, strict=True):
        used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', svg)
        assert used and {a or b for a, b in used} <= own


def test_nothing_applies_to_the_page_around_it() -> None:
    svg = plot().drawing("", None).svg
    assert svg.startswith("<svg") and "<style" not in svg and "<metadata" not in svg
    assert "font-family" not in svg
    assert svg == plot().drawing("", None).svg, "the same each time"


def test_hints_are_bounded() -> None:
    found = Plot("p", "")
    assert all(found.hint("x") for _ in range(MOST_HINTS)) and found.hint("x") is None


def test_words() -> None:
    assert words("a\nb\x1b[31m") == "a b\\x1b[31m"
    assert words("x" * 99, 10) == "x" * 9 + "…"
