"""What users do with a finished run, by the commands: report, export, judge again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from astra_chat.cli.main import app


def report_of(transcript: Path) -> str:
    """The page of a run."""
    page = transcript.parent / "page.html"
    _done("report", transcript, "-o", page)
    return page.read_text()


def rows_of(transcript: Path) -> list[dict[str, Any]]:
    """The exported evaluations of a run."""
    rows = transcript.parent / "rows.jsonl"
    _done("export", transcript, "--to", "jsonl", "-o", rows)
    return [json.loads(line) for line in rows.read_text().splitlines()]


def judged_again(transcript: Path) -> dict[str, Any]:
    """What the judge finds of each candidate now, beside what it found."""
    words = ("--rejudge", "--device", "virtual", "--trust", "--json")
    found: dict[str, Any] = json.loads(_done("replay", transcript, *words))
    return found


def _done(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, (result.stdout, result.stderr, result.exception)
    return result.stdout
