"""The pages of the viewer. What others say in them is escaped text, as in a report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from astra_chat.report.html import report, script_hash, style_sheet, templates
from astra_chat.transcript.reader import read
from astra_chat.viewer.following import News
from astra_chat.viewer.runs import RunRow
from astra_vgpu.ground.errors import BadInput

TEMPLATES = Path(__file__).parent / "templates"


def index_page(root: Path, rows: Sequence[RunRow]) -> str:
    """The runs in a folder."""
    return _render("index.html", root=str(root), **_index(rows))


def index_rows(rows: Sequence[RunRow]) -> str:
    """The part of the index that changes."""
    return _render("rows.html", **_index(rows))


def live_page(row: RunRow, news: News) -> str:
    """A run under way: what came so far, and new turns as they come."""
    return _render("live.html", row=row, **_news(news))


def live_turns(news: News) -> str:
    """The turns of `news` alone."""
    return _render("live_turns.html", **_news(news))


def run_report(paths: Sequence[Path]) -> str:
    """The report of one run or of several. Raises BadInput."""
    if not paths:
        raise BadInput("no run was chosen")
    return report([read(path) for path in paths])


def _index(rows: Sequence[RunRow]) -> dict[str, Any]:
    folders: dict[str, list[RunRow]] = {}
    for row in rows:
        folders.setdefault(row.folder, []).append(row)
    waiting = [row for row in rows if row.state in ("running", "waiting")]
    return {"folders": folders, "waiting": waiting, "count": len(rows)}


def _news(news: News) -> dict[str, Any]:
    return {"turns": news.turns, "after": news.after}


def _render(name: str, **values: Any) -> str:
    environment = templates(TEMPLATES)
    script = (TEMPLATES / "live.js").read_text(encoding="utf-8")
    return environment.get_template(name).render(
        style=style_sheet(), script=Markup(script), script_hash=script_hash(script), **values
    )
