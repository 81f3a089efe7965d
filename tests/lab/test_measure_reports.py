"""A run that is made of another one's rounds is a transcript, and a report shows it."""

from __future__ import annotations

from pathlib import Path

from astra_chat.transcript.reader import read
from astra_chat.transcript.recorded_task import require_hashes
from astra_chat.transcript.summary import summarize
from lab.measure_reports import EXAMPLE, joined


def test_a_long_run_of_a_short_one(tmp_path: Path) -> None:
    long, short = read(joined(EXAMPLE, 100, tmp_path / "t.jsonl")), read(EXAMPLE)
    require_hashes(long)
    assert 100 <= long.records[-1].turn < 100 + short.records[-1].turn
    rounds = summarize(long.records).rounds
    assert len(rounds) == 3 * len(summarize(short.records).rounds)
    candidates = [attempt.candidate for one in rounds for attempt in one.attempts]
    assert len(candidates) == len(set(candidates))
