"""The report holds what the transcript says, and nothing in a transcript becomes markup."""

from __future__ import annotations

from pathlib import Path

from astra_chat.report.html import report
from astra_chat.transcript.reader import read
from tests.chat_samples import write_transcript

ROOT = Path(__file__).parents[3]
EVIL = "<script>alert(1)</script>"


def test_measured_runs_side_by_side() -> None:
    paths = sorted((ROOT / "transcripts" / "examples" / "h200").glob("*.jsonl"))
    assert len(paths) == 2
    page = report([read(path) for path in paths])
    assert page.count("measured on NVIDIA H200") >= 4 and "estimated for" not in page
    assert "2 runs" in page and 'class="add"' in page


def test_what_models_say_is_never_markup(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    text = path.read_text()
    for field in ('"title":"', '"words":"', '"why":"'):
        assert field in text
        text = text.replace(field, field + EVIL)
    path.write_text(text)
    page = report([read(path)])
    assert "&lt;script&gt;" in page and "<script" not in page
    assert "estimated for NVIDIA H200" in page
