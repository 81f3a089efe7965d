"""What is on a terminal's screen as an SVG: text, so that it stays sharp and small."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

INK, MUTED, PAPER, BAR = "#e4e7eb", "#a2abb6", "#15181c", "#262c34"
COLORS = ("#15181c", "#f28b82", "#69c98a", "#e3ac4d", "#6aaef5", "#d493e6", "#5fc7d1", "#e4e7eb")
"""The report's, in its dark theme: black, red, green, yellow, blue, magenta, cyan, white."""
SIZE, ROW, EDGE, TOP = 14, 19, 14, 40
"""Pixels: of letters, from one line to the next, around the text, and of the bar above it."""
CHARACTER = 0.61 * SIZE
FONT = "ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',Consolas,monospace"


def picture(command: str, lines: Sequence[str], columns: int) -> str:
    """The SVG of these lines, with their escape sequences, below the command that printed them."""
    classes: dict[str, str] = {}
    shown = AnsiDecoder().decode("\n".join(line.rstrip() for line in lines))
    texts = [
        f'<text x="{EDGE}" y="{TOP + ROW * (row + 1)}">{_markup(line, classes)}</text>'
        for row, line in enumerate(shown)
        if line.plain.strip()
    ]
    width, height = round(columns * CHARACTER + 2 * EDGE), TOP + ROW * len(lines) + EDGE
    rules = "".join(f".{name}{{{css}}}" for css, name in classes.items())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
            f"<title>$ {escape(command)}</title>",
            f"<style>text{{font:{SIZE}px {FONT};fill:{INK};white-space:pre}}{rules}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
            f'<path d="M0 8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{TOP - 14}H0z" fill="{BAR}"/>',
            f'<text x="{EDGE}" y="23" xml:space="preserve">$ {escape(command)}</text>',
            *texts,
            "</svg>\n",
        ]
    )


def _markup(line: Text, classes: dict[str, str]) -> str:
    """One line; each look of its text is a class."""
    found = []
    for text, style, _ in line.render(_CONSOLE):
        if text == "\n":
            continue
        look = _css(style or Style())
        if look and not text.isspace():
            name = classes.setdefault(look, "abcdefghijklmnopqrstuvwxyz"[len(classes)])
            found.append(f'<tspan class="{name}">{escape(text, quote=False)}</tspan>')
        else:
            found.append(escape(text, quote=False))
    return "".join(found)


def _css(style: Style) -> str:
    parts = []
    if style.dim:
        parts.append(f"fill:{MUTED}")
    elif style.color is not None and not style.color.is_default:
        parts.append(f"fill:{style.color.get_truecolor(_THEME).hex}")
    if style.bold:
        parts.append("font-weight:600")
    if style.italic:
        parts.append("font-style:italic")
    return ";".join(parts)


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


_CONSOLE = Console(force_terminal=True, color_system="truecolor")
_THEME = TerminalTheme(_rgb(PAPER), _rgb(INK), [_rgb(one) for one in COLORS])
