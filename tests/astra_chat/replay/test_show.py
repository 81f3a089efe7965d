"""Replay shows what the live run showed, and says what a killed run lacks."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.display.output_modes import Live
from astra_chat.replay.show import difference, found, replay, source
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.reader import Transcript, incompleteness, read
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import VECTOR, FixedJudge, write_transcript

ROOT = Path(__file__).parents[3]


def test_replay_is_the_live_text(
    task: Task, tmp_path: Path, fixed_judge: FixedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    request = chat_request(task, tmp_path / "out")
    show = Live()
    result = run_request(request, show, fixed_judge)
    live = capsys.readouterr().out
    replay(read(result.transcript))
    assert capsys.readouterr().out == live
    assert len(live.splitlines()) > 80, "and it is a whole run"


@pytest.mark.second_tier
def test_replay_needs_neither_autogen_nor_torch(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    code = (
        "import sys; from astra_chat.cli.main import main\n"
        "sys.argv = ['x', 'replay', sys.argv[1]]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = [m for m in sys.modules if m.split('.')[0] in"
        " ('autogen_core', 'autogen_agentchat', 'torch', 'numpy', 'openai')]\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "all cases, weighted" in done.stdout


def test_a_whole_transcript_lacks_nothing(tmp_path: Path) -> None:
    assert incompleteness(read(write_transcript(tmp_path / "t.jsonl"))) is None


def test_a_torn_and_a_killed_one(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    text = path.read_text()
    path.write_text(text[:-9])
    assert "cut off" in str(incompleteness(read(path)))
    path.write_text(text[: text.rstrip().rindex("\n") + 1])
    assert "killed before it ended" in str(incompleteness(read(path)))


def test_in_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transcript = read(write_transcript(tmp_path / "t.jsonl"))
    records = tuple(
        record.model_copy(update={"t": 10.0 * record.turn}) for record in transcript.records
    )
    slow, pauses = dataclasses.replace(transcript, records=records), list[float]()
    replay(slow, speed=4.0, pause=pauses.append)
    timed = capsys.readouterr().out
    assert pauses == [2.5] * 8
    replay(slow)
    assert capsys.readouterr().out == timed


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return read(write_transcript(tmp_path / "t.jsonl"))


def test_a_source_by_name_first_digits_or_rank(transcript: Transcript) -> None:
    name = candidate_id(VECTOR)
    assert source(transcript, name) == source(transcript, name[:5]) == VECTOR
    assert source(transcript, "best") == VECTOR != source(transcript, "baseline")
    with pytest.raises(BadInput, match="did you mean best"):
        source(transcript, "bset")


def test_the_difference_of_two(transcript: Transcript) -> None:
    lines = difference(transcript, "baseline", "best").splitlines()
    assert lines[:2] == ["--- baseline", "+++ best"]
    assert [line[1:] for line in lines[3:] if line[0] in " +"] != []
    assert difference(transcript, "best", "best") == ""


def test_lines_are_found_with_their_turn(transcript: Transcript) -> None:
    assert any("coder: " in line for line in found(transcript, "four at a TIME"))
    name = candidate_id(VECTOR)
    assert any(f"coder, {name}:" in line for line in found(transcript, "__global__"))
    assert list(found(transcript, "nobody says this")) == []
