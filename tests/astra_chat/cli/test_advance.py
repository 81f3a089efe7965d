"""`astra-chat advance`: each run whose result is there goes on; what the others wait for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.detached.jobs import folders_under
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import TRANSCRIPT
from tests.astra_chat.job_commands import BROKEN_BASELINE, NO_MUTANTS, command, work


def test_a_run_stops_and_says_how_to_go_on(
    task_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A baseline that the guard refuses: the real judge on both sides, and no compiler."""
    (task_folder / "baseline.cu").write_text(BROKEN_BASELINE)
    out = tmp_path / "a run"
    options = ["--models", "scripted", "--device", "virtual", "--judge", "detached", *NO_MUTANTS]
    code, said = command("run", task_folder, *options, "--quiet", "--out", out)
    assert code == 4 and f"astra-chat judge work '{out}'; then resume with: " in said
    ended = read(out).ended
    assert ended is not None and f"Waiting until job {ended.job[:12]} is judged." in ended.words
    assert ended.words.lower().count("waiting") == 1
    assert [folder.name for folder in folders_under([out])] == [ended.job]
    code, text = command("advance", tmp_path)
    assert code == 4 and f"transcript.jsonl: Waiting until job {ended.job[:12]}" in text
    code, _ = command("approve", out)
    assert code == 2 and "is waiting for the judge, not for a decision" in capsys.readouterr().err
    assert work(tmp_path)[0] == 0
    code, text = command("advance", tmp_path, "--json")
    document = json.loads(text)
    assert code == 1 and document["schema"] == "astra-chat/advanced/1"
    assert [row["state"] for row in document["runs"]] == ["ended"]
    last = read(out).ended
    assert last is not None and last.reason == "baseline_failed"
    assert command("advance", tmp_path)[0] == 0


def test_advance_says_what_it_may_not_take_from_a_run_and_goes_on(
    task_folder: Path, tmp_path: Path
) -> None:
    (task_folder / "baseline.cu").write_text(BROKEN_BASELINE)
    options = ["--models", "scripted", "--device", "virtual", "--judge", "detached", *NO_MUTANTS]
    command("run", task_folder, *options, "--budget", "evaluations=9", "--out", tmp_path / "a")
    command("run", task_folder, *options, "--out", tmp_path / "b")
    (tmp_path / "c.jsonl").write_text((tmp_path / "b" / TRANSCRIPT).read_text()[:3000])
    assert work(tmp_path)[0] == 0
    code, text = command("advance", tmp_path)
    assert code == 2 and "recorded budget: evaluations=9" in text
    lines = dict(line.split(": ", 1) for line in text.splitlines())
    assert lines[str(tmp_path / "a" / TRANSCRIPT)].startswith("Waiting until job")
    assert lines[str(tmp_path / "b" / TRANSCRIPT)].startswith("ended")
    assert lines[str(tmp_path / "c.jsonl")].startswith("unreadable")
    code, text = command("advance", tmp_path / "a", "--accept-recorded-options")
    assert code == 1 and "ended" in text
    assert command("advance", tmp_path / "nowhere")[0] == 2
