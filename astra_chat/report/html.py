"""Transcripts as one self-contained HTML page; what others say in it is escaped text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from astra_chat.display.spending_view import gpu_words, time_words
from astra_chat.report.comparison import groups_of
from astra_chat.report.run_page import run_page
from astra_chat.tools.text import plain
from astra_chat.transcript.reader import Transcript

TEMPLATES = Path(__file__).parent / "templates"
SECTIONS = (
    ("speed", "speed over rounds"),
    ("cases", "cases"),
    ("story", "rounds"),
    ("predicted", "predictions"),
    ("precision", "errors"),
    ("spent", "spent"),
    ("launches", "launch plans"),
    ("winner", "winner"),
    ("turns", "turns"),
    ("environment", "environment"),
)
"""Sections of every run: anchor and name."""


def report(transcripts: Sequence[Transcript], notes: Sequence[str] = ()) -> str:
    """The page; `notes` come first, a paragraph each.

    It is complete without scripts. Its policy allows the one script that it has, by its hash, and
    no request at all. Raises BadInput where a transcript lacks what a report needs.
    """
    runs = [run_page(one, f"run{number}") for number, one in enumerate(transcripts, 1)]
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8")
    return (
        templates()
        .get_template("page.html")
        .render(
            runs=runs,
            notes=notes,
            groups=groups_of(runs),
            sections=SECTIONS,
            style=style_sheet(),
            script=Markup(script),
            script_hash=script_hash(script),
        )
    )


def templates(*others: Path) -> Environment:
    """Returns the templates in the folders `others`, then the report's own."""
    found = Environment(
        loader=FileSystemLoader([*others, TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_seen,
    )
    found.filters["time_words"] = time_words
    found.filters["gpu_words"] = gpu_words
    return found


def style_sheet() -> Markup:
    return Markup((TEMPLATES / "style.css").read_text(encoding="utf-8"))


def script_hash(script: str) -> str:
    """Returns a script's sha256 in base64, by which a Content-Security-Policy lets it run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _seen(value: object) -> object:
    """Text of others with unseen characters spelt out, so that a diff shows what a compiler reads;
    markup is our own."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value
