"""The task out of a transcript: its files stay where they belong."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.task.folder import find_task
from astra_chat.transcript.reader import read
from astra_chat.transcript.recorded_task import baseline_text, require_hashes, task_of

EXAMPLES = Path(__file__).resolve().parents[3] / "transcripts" / "examples"


def test_the_recorded_files_are_the_task() -> None:
    transcript = read(EXAMPLES / "silu_and_mul-h200.jsonl.xz")
    require_hashes(transcript)
    with task_of(transcript, None) as task:
        assert task.entry == find_task("silu_and_mul").entry
        assert baseline_text(transcript) == task.baseline
        assert set(task.files()) == set(transcript.header.task.files)
