"""Waiting for the next question, as long as a run may ask one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from astra_chat.mailbox import runs
from astra_chat.mailbox.answers import give
from astra_chat.mailbox.questions import ask
from astra_chat.mailbox.runs import RUNS, NoRunLeft, Waiting, ended_runs, enter, wait_for_question
from astra_chat.transcript.reader import read
from astra_chat.transcript.run_folder import PROGRESS
from astra_chat.transcript.writer import Writer
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.mailbox_samples import meta
from tests.chat_samples import write_transcript


@pytest.fixture
def box(tmp_path: Path) -> Path:
    (tmp_path / "box").mkdir()
    return tmp_path / "box"


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "run" / "transcript.jsonl")


def test_the_oldest_question_comes_first_whatever_the_runs_do(box: Path, transcript: Path) -> None:
    enter(box, "run-1", transcript)
    for number, asked in ((1, "2026-01-02"), (2, "2026-01-01")):
        ask(box, meta(f"q-{number}", run=f"run-{number}", asked=asked), "p", {})
    found = wait_for_question(box, timeout_s=0)
    assert found is not None and found.id == "q-2"
    give(found, "{}")
    found = wait_for_question(box, run="run-1", timeout_s=0)
    assert found is not None and found.id == "q-1"


def test_it_ends_at_once_when_the_last_run_ends(
    box: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CHECK_S", 0.0)
    lines = transcript.read_text().splitlines(keepends=True)
    transcript.write_text("".join(lines[:-1]))
    writer = Writer.go_on(read(transcript))
    enter(box, "run-1", transcript)
    assert ended_runs(box) is None, "it is under way"
    looking = Waiting(box)
    assert looking.look() is None
    writer.close()
    transcript.write_text("".join(lines))
    with pytest.raises(NoRunLeft, match="run run-1 is not running: The profiler expects"):
        looking.look()


def test_a_run_that_is_being_started_has_time_to_enter(
    box: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(box, "run-1", transcript)
    assert wait_for_question(box, timeout_s=0) is None
    passed_s = [100.0]
    monkeypatch.setattr(runs, "time", SimpleNamespace(monotonic=lambda: passed_s[0]))
    looking = Waiting(box, _since=100.0)
    for passed_s[0] in (100.0, 105.0, 99.9 + runs.GRACE_S):
        assert looking.look() is None
    passed_s[0] = 100.0 + runs.GRACE_S + runs.CHECK_S
    with pytest.raises(NoRunLeft):
        looking.look()


def test_a_mailbox_that_a_starting_run_has_not_made_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = tmp_path / "box"
    looking = Waiting(box)
    assert looking.look() is None and "to start" in looking.doing
    box.mkdir()
    ask(box, meta("q-1"), "p", {})
    found = looking.look()
    assert found is not None and found.id == "q-1"
    with pytest.raises(BadInput, match="a run creates it with --models mailbox:"):
        wait_for_question(tmp_path / "none", timeout_s=0)
    monkeypatch.setattr(runs, "START_S", 0.0)
    with pytest.raises(BadInput, match="a run creates it with --models mailbox:"):
        wait_for_question(tmp_path / "none")


def test_who_waits_is_told_how_far_the_judge_is(
    box: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CHECK_S", 0.0)
    enter(box, "run-1", transcript)
    told: list[str] = []
    note = transcript.parent / PROGRESS
    note.write_text("the judge checks and times 0123: check, 31 of 58: compared\n\x1b[31m")
    assert wait_for_question(box, timeout_s=0.3, tell=told.append) is None
    assert told[0].startswith("run run-1: the judge checks and times 0123: check, 31 of 58")
    assert "\x1b" not in told[0] and len(told) == 1
    note.unlink()
    note.symlink_to(transcript)
    assert list(runs.busy_runs(box)) == [], "what is no note is not read"


def test_an_empty_mailbox_and_one_of_another_machine_are_waited_for(
    box: Path, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GRACE_S", 0.0)
    assert ended_runs(box) is None
    enter(box, "run-1", transcript)
    give(ask(box, meta("q-1", run="run-2"), "p", {}), "{}")  # its transcript is elsewhere
    assert ended_runs(box) is None and ended_runs(box, "run-1") is not None
    assert wait_for_question(box, timeout_s=0.1) is None


def test_what_is_no_note_of_a_run_is_left_alone(box: Path, transcript: Path) -> None:
    enter(box, "run-1", transcript)
    (box / RUNS / "a.json").write_text("{}")
    (box / RUNS / "b.json").mkdir()
    assert len(ended_runs(box) or []) == 1
