"""Runs about one task stand side by side, and what differs between them is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.report.comparison import groups_of
from astra_chat.report.run_page import run_page
from astra_chat.transcript.reader import read
from tests.chat_samples import write_transcript

ROOT = Path(__file__).parents[3]


@pytest.mark.second_tier
def test_by_task(tmp_path: Path) -> None:
    examples = ROOT / "transcripts/examples"
    paths = [
        examples / "silu_and_mul-h200.jsonl.xz",
        write_transcript(tmp_path / "t.jsonl"),
        examples / "virtual/silu_and_mul.jsonl.xz",
    ]
    runs = [run_page(read(path), f"run{n}") for n, path in enumerate(paths, 1)]
    first, second = groups_of(runs)
    assert (first.task, [run.id for run in first.runs]) == ("silu_and_mul", ["run1", "run3"])
    assert "device" in first.differs and "strategy" not in first.differs
    assert second.task == "doubled" and second.drawings == [], "one run is not compared"
    best, by_round = first.drawings
    assert best.basis is None, "both kinds of times"
    assert "1: best, scripted, sglang, measured" in by_round.svg
    assert "3: best, scripted, sglang, estimated" in best.svg
