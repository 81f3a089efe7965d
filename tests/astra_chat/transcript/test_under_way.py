"""Whether a run is under way, and what it waits for."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from astra_chat.agents.turn_order import Decision
from astra_chat.transcript.events import Chosen, Ended
from astra_chat.transcript.reader import read
from astra_chat.transcript.under_way import doing, locked_inodes, state_of_run
from astra_chat.transcript.writer import Writer
from tests.chat_samples import write_transcript


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "a" / "transcript.jsonl")


def test_a_run_holds_a_lock_on_its_transcript(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    writer = Writer.go_on(read(path))
    assert path.stat().st_ino in locked_inodes()
    assert state_of_run(read(path).records, True)[0] == "running"
    writer.close()
    assert path.stat().st_ino not in locked_inodes()
    assert state_of_run(read(path).records, False) == ("stopped", "killed before it ended")


@pytest.mark.parametrize(
    ("speaker", "words"),
    [
        ("executor", "the judge is working"),
        ("human", "waiting for the human's decision"),
        ("coder", "waiting for the coder's reply"),
    ],
)
def test_what_a_run_waits_for(path: Path, speaker: str, words: str) -> None:
    other = path.parent / "b.jsonl"
    writer = Writer(other, "run-2")
    writer.append(*(record.event for record in read(path).records[:5]))
    decision = Decision(speaker=speaker, by="rule", legal=(speaker,))  # type: ignore[arg-type]
    writer.append(Chosen(decision=decision))
    writer.close()
    assert state_of_run(read(other).records, True) == ("running", words)
    assert doing(read(other).records[:-1]) == "choosing the next speaker"


@pytest.mark.parametrize(("question", "command"), [("", "approve"), ("0001-coder", "mailbox next")])
def test_a_run_that_stopped_to_wait_says_how_to_answer(
    path: Path, question: str, command: str
) -> None:
    records = read(path).records
    last = Ended(
        reason="waiting", words="Waiting.", best=None, ratio=None, basis=None, question=question
    )
    told = [*records[:-1], records[-1].model_copy(update={"event": last})]
    assert state_of_run(told, False) == ("waiting", f"Waiting. (astra-chat {command})")


def test_a_process_that_waits_for_a_lock_holds_none(tmp_path: Path) -> None:
    """Its line of the kernel's list has one field more."""
    path = tmp_path / "held"
    waits = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", waits, str(path)]) as waiting:
            try:
                mine = f":{path.stat().st_ino} "
                deadline = time.monotonic() + 20
                while not any("->" in line and mine in line for line in lock_lines()):
                    assert time.monotonic() < deadline and waiting.poll() is None
                    time.sleep(0.01)
                assert path.stat().st_ino in locked_inodes()
            finally:
                waiting.kill()


def lock_lines() -> list[str]:
    return Path("/proc/locks").read_text().splitlines()
