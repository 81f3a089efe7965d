"""The three ways to show a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.display.output_modes import Json, Live, Quiet, show_for
from astra_chat.tools.progress import Progress
from astra_chat.transcript.reader import read
from astra_chat.transcript.summary import summarize
from tests.chat_samples import write_transcript


def shown(as_json: bool, quiet: bool, path: Path) -> None:
    show = show_for(as_json, quiet)
    transcript = read(write_transcript(path))
    for record in transcript.records:
        show.record(record)
        show.progress(Progress(step="check", done=1, total=2, text="compared"))
    show.close()
    show.end(summarize(transcript.records), path)


def test_which_is_which() -> None:
    assert isinstance(show_for(False, False), Live)
    assert isinstance(show_for(False, True), Quiet)
    assert isinstance(show_for(True, False), Json) and isinstance(show_for(True, True), Json)


def test_live_shows_turns_and_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(False, False, tmp_path / "t.jsonl")
    out = capsys.readouterr().out
    assert "planner  (chosen by rule)" in out and "all cases, weighted" in out
    assert out.endswith(f"transcript: {tmp_path}/t.jsonl\n") and "compared" not in out
    steps = out.partition("\nnext: ")[2].splitlines()[1:4]
    assert [step.split()[:2] for step in steps] == [
        ["astra-chat", name] for name in ("report", "replay", "optimize")
    ]


def test_quiet_shows_the_end_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(False, True, tmp_path / "t.jsonl")
    out = capsys.readouterr().out
    assert "planner" not in out and "all cases, weighted" in out and "transcript: " in out
    assert not out.startswith("\n")


def test_quiet_shows_the_last_end_of_a_run_that_was_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    records = read(path).records
    show = show_for(False, True)
    for record in [*records, *records[1:]]:
        show.record(record)
    assert capsys.readouterr().out == ""
    show.close()
    assert capsys.readouterr().out.count("all cases, weighted") == 1


def test_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown(True, False, tmp_path / "t.jsonl")
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "astra-chat/run/1"
    assert document["transcript"] == str(tmp_path / "t.jsonl")
