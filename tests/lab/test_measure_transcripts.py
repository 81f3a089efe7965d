"""A joined run is a transcript that reads back."""

from __future__ import annotations

import json
from pathlib import Path

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.transcript.reader import read
from lab.measure_transcripts import RUN, joined


def test_a_joined_run_reads_back(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in read_recorded(RUN).splitlines()]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in joined(lines, 90)))
    found = read(path)
    assert found.records[-1].turn == 90 and not found.torn
