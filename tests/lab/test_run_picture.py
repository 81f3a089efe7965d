"""The README's picture is the recorded run's."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from lab.live_runs import load
from lab.run_picture import picture, rows
from tests.sources import ROOT

FOLDER = ROOT / "transcripts/recorded.tar.xz/live/further"
FILES = ("qk_rmsnorm_rope-sglang-team-1.jsonl", "qk_rmsnorm_rope-11b113d669a8-h200.json")
PICTURE = ROOT / "docs/run.svg"


def test_the_picture_shows_the_recorded_rounds_and_what_the_gpu_measured() -> None:
    (run,) = load(FOLDER / name for name in FILES)
    shown = list(rows(run))
    assert [row.kind for row in shown] == ["plain", "bad", "plain", "bad", "plain", "plain", "best"]
    timed = run.timed_on("NVIDIA H200")
    assert timed and shown[-1].result == f"measured {timed.ratio:.2f}x"
    assert PICTURE.read_text() == picture(run) + "\n"
    texts = [text.text for text in ET.fromstring(picture(run)).iter() if text.tag.endswith("text")]
    assert all(row.text in texts and row.result in texts for row in shown)
    assert PICTURE.stat().st_size < 8_000
