"""The report holds what the transcript says, and nothing in a transcript becomes markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from astra_chat.report.html import report
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.events import Event, Repaired
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import Asked, Tokens
from astra_chat.transcript.writer import Writer
from tests.chat_samples import VECTOR, write_transcript

ROOT = Path(__file__).parents[3]
EVIL = "<script>alert(1)</script>\u202e"
VOID = {"meta", "br"}
DRAWN = {"line", "circle", "polyline"}


class Checker(HTMLParser):
    """Every element is closed, none is a script, and none fetches anything."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        assert tag != "script" and not names & {"src", "href", "onload", "onclick", "action"}
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in DRAWN, tag
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(page: str) -> list[str]:
    """Names of all elements of a well-formed page."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    return checker.seen


def test_measured_runs_side_by_side() -> None:
    paths = sorted((ROOT / "transcripts" / "examples" / "h200").glob("*.jsonl"))
    assert len(paths) == 2
    page = report([read(path) for path in paths])
    assert page.count("measured on NVIDIA H200") >= 4 and "estimated for" not in page
    assert "2 runs" in page and 'class="add"' in page
    assert elements(page).count("svg") == 2


def test_what_models_say_is_never_markup(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    text = path.read_text()
    for field in ('"title":"', '"words":"', '"why":"'):
        assert field in text
        text = text.replace(field, field + EVIL)
    path.write_text(text)
    page = report([read(path)])
    assert "\\x202e" in page and "\u202e" not in page, "nor does it turn what stands beside it"
    assert "&lt;script&gt;" in page and "<script" not in page
    assert "estimated for NVIDIA H200" in page
    elements(page)


def test_the_plot_and_the_table_say_the_same(tmp_path: Path) -> None:
    page = report([read(write_transcript(tmp_path / "t.jsonl"))])
    words = "1.90x (1.71 to 2.09)"
    assert f"<title>best after round 1, {candidate_id(VECTOR)}: {words}</title>" in page
    assert f"<td>{words}</td>" in page


def test_a_killed_run_without_a_round(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))
    page = report([read(path)])
    assert "killed before its end" in page and "<svg" not in page
    elements(page)


def row(page: str, name: str) -> list[str]:
    """Cells of the table row that begins with a name."""
    found = re.search(rf"<tr><td>{name}</td>(.*?)</tr>", page, re.DOTALL)
    assert found is not None, name
    return re.findall(r"<td>(.*?)</td>", found[1])


def test_what_was_spent_by_role_by_step_and_why_not_taken(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    transcript = read(path)
    one = Tokens(prompt=1000, cached=300, completion=50, reasoning=20, usd=0.25)
    spent: list[Event] = [
        Asked(role="coder", model="m", tokens=one), Repaired(speaker="coder", reason="empty"),
        Asked(role="coder", model="m", tokens=one), Asked(role="selector", model="m", tokens=one),
    ]  # fmt: skip
    whole = Writer(tmp_path / "whole.jsonl", "run-1")
    whole.append(*(record.event for record in transcript.records[:-1]))
    whole.append(*spent)
    whole.close()
    page = report([read(tmp_path / "whole.jsonl")])
    assert row(page, "coder") == [
        "2", "2,000", "600", "100", "40", "$0.5000", "1", "1,050", "$0.2500",
    ]  # fmt: skip
    assert row(page, "selector")[0] == "1" and row(page, "selector")[6:] == ["0", "0", "$0.0000"]
    assert row(page, "all")[1] == "3,000" and row(page, "all")[6] == "1"
    assert row(page, "check") == ["0.2"] and row(page, "build") == ["1.5"]
    assert row(page, "unusable reply") == ["1"]
