"""The style sheet without a browser: text can be told from what is behind it in both themes, and a
table that is wider than a phone scrolls in a box of its own. test_browser.py looks at whole pages.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
STYLE = (ROOT / "astra_chat/report/templates/style.css").read_text()
TEXT = ("ink", "muted", "link", "good", "tie", "bad", *(f"series-{n}" for n in range(8)))
CODE = ("ink", "muted", "keyword", "string", "number", "comment", "name")
TABLES = [
    path
    for path in sorted(ROOT.glob("astra_chat/*/templates/*.html"))
    if "<table" in path.read_text()
]


def variables(theme: str) -> dict[str, str]:
    """The colours of a theme; what the dark one does not set, it takes from the light one."""
    light, dark = STYLE.split("@media (prefers-color-scheme: dark)")[:2]
    parts = [light] if theme == "light" else [light, dark.split("* {")[0]]
    found: dict[str, str] = {}
    for part in parts:
        found |= dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})\b", part))
    return found


def contrast(one: str, other: str) -> float:
    """The contrast of two colours by WCAG 2."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_told_from_its_ground(theme: str) -> None:
    """WCAG 2, level AA: a contrast of 4.5."""
    colors = variables(theme)
    pairs = [(text, ground) for text in TEXT for ground in ("paper", "card")]
    pairs += [(text, ground) for text in CODE for ground in ("card", "add", "del")]
    pairs += [("ink", "change"), ("paper", "best")]
    found = {pair: contrast(colors[pair[0]], colors[pair[1]]) for pair in pairs}
    assert not {pair: ratio for pair, ratio in found.items() if ratio < 4.5}


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_tables_scroll_in_a_box_of_their_own(path: Path) -> None:
    text = path.read_text()
    for table in re.finditer("<table", text):
        assert 'class="scroll"' in text[: table.start()].rpartition("<div")[2]


def test_nothing_is_wider_than_a_phone() -> None:
    """390 pixels: 24 rem of 16 pixels, with the page's edges."""
    screen = STYLE.split("@media print")[0]
    widths = re.findall(r"(?<!max-)(?<!-)\bwidth: ([\d.]+)rem|min-width: ([\d.]+)rem", screen)
    assert widths and all(float(a or b) <= 22 for a, b in widths)
    assert ".scroll { overflow-x: auto" in STYLE and not re.search(r"width: \d+px", STYLE)
