"""The pages hold what the list and the transcript say, as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.viewer.runs import Runs
from astra_chat.viewer.server import (
    Following,
    index_page,
    index_rows,
    live_page,
    live_turns,
    run_report,
)
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import write_transcript

EVIL = "<script>alert(1)</script>\u202e"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = write_transcript(tmp_path / "runs" / "a" / "transcript.jsonl")
    text = path.read_text()
    path.write_text(text.replace('"words":"', f'"words":"{EVIL}'))
    return path


def test_the_index(path: Path) -> None:
    root = path.parents[1]
    rows = Runs(root).list()
    page = index_page(root, rows)
    assert page.count("<script") == 1 and index_rows(rows) in page
    assert f'href="run/{rows[0].key}/">doubled</a>' in page and "estimated" in page
    assert "There are no runs here" in index_page(root, [])


def test_a_run_under_way(path: Path) -> None:
    (row,) = Runs(path.parents[1]).list()
    news = Following(path).news(0)
    page = live_page(row, news)
    assert page.count("<script") == 1 and "\u202e" not in page and "&lt;script&gt;" in page
    assert page.count('<details class="turn') == len(news.turns) == 8
    assert live_turns(Following(path).news(7)).count("<details") == 1


def test_reports(path: Path) -> None:
    assert "1 run" in run_report([path]) and "2 runs" in run_report([path, path])
    with pytest.raises(BadInput, match="no run was chosen"):
        run_report([])
