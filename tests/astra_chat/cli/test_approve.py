"""Decisions from another process and at a real terminal, about the real judge's findings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from astra_chat.transcript.reader import read
from tests.astra_chat.commands import Command
from tests.astra_chat.terminal import OwnTerminal, command
from tests.chat_samples import KERNELS, SCRIPT, write_transcript

ROOT = Path(__file__).parents[3]
RESUME = "astra-chat run --resume"
QUICK = ("--device", "virtual", "--mutants", 0)


def astra(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "astra_chat", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        env={**os.environ},  # what C code set, readline's COLUMNS above all, is not in there
    )


@pytest.fixture
def short(task_folder: Path) -> Path:
    """The sample task with a script of one round, whose candidate is faster."""
    rounds = SCRIPT.split("[[round]]")
    text = "[[round]]".join([rounds[0], rounds[2]])
    (task_folder / "script" / "script.toml").write_text(text)
    return task_folder


@pytest.mark.in_full
@pytest.mark.second_tier
def test_detached_hours_later(short: Path, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "out" / "transcript.jsonl"
    first = astra("run", short, *QUICK, "-o", path.parent, "--approver", "detached")
    assert first.returncode == 4, first.stderr
    assert first.stderr == f"astra-chat: decide with: astra-chat approve {path}\n"
    asked = command("approve", path)
    assert asked.code == 0 and "is waiting to be run" in asked.out
    assert "+  float4 v = in[i];" in asked.out and "expected: 2.00x" in asked.out
    assert "decide with --approve" in asked.out
    assert command("approve", path, "--source").out == KERNELS["vector.cu"]
    said = command("approve", path, "--approve")
    assert said.out == f"decided; resume with: {RESUME} {path}\n"
    again = command("approve", path, "--reject", "not today")
    assert again.err.startswith(
        "astra-chat: already decided, but the run has not used the decision yet: approves "
    )
    again = command("approve", path, "--approve")
    assert "decision yet: rejects " in again.err and "not today" in again.err
    assert "decided; resume with" in command("replay", path).err
    second = astra("run", "--resume", path)
    assert second.returncode == 4, second.stderr
    evidence = command("approve", path.parent).out
    assert "is waiting to be accepted" in evidence and "% of" in evidence
    assert "sanitizers: " in evidence and "confirmed: on fresh seeds" in evidence
    last = astra("approve", path, "--all", "--resume")
    assert last.returncode == 0, last.stderr
    assert (path.parent / "best.cu").read_text() == KERNELS["vector.cu"]
    assert read(path).ended is not None
    replayed = command("replay", path)
    shown, _, what_next = last.stdout.rpartition("next: ")
    transcript = what_next[what_next.index("transcript: ") :]
    assert replayed.out == shown + transcript, "and replay needs no human"


@pytest.mark.second_tier
def test_at_a_terminal(short: Path, tmp_path: Path) -> None:
    """Ctrl-C while it asks; then resumed; then all is approved."""
    path = tmp_path / "out" / "transcript.jsonl"
    first = OwnTerminal(command("run", short, *QUICK, "-o", path.parent, "--approve"))
    first.wait_for("[?] ")
    assert "is waiting to be run" in first.plain
    first.type("\x03")
    assert first.end() == 130, first.shown
    assert "astra-chat run --resume" in first.shown
    ended = read(path).ended
    assert ended is not None and ended.reason == "interrupted"
    second = OwnTerminal(command("run", "--resume", path))
    second.type("s\n")  # before anything is asked: it is no answer
    second.wait_for("[?] ")
    second.type("a\n")
    second.wait_for("[?] ")
    assert "run it? [a]pprove" in second.plain and "accept it as the best? " in second.plain
    assert "is waiting to be accepted as the best" in second.plain and "ratio" in second.plain
    second.type("l\n")
    assert second.end() == 0, second.shown
    assert (path.parent / "best.cu").is_file()


def test_without_a_terminal_it_ends_at_once(short: Path, tmp_path: Path) -> None:
    done = astra("run", short, *QUICK, "-o", tmp_path / "out", "--approve")
    assert done.returncode == 4 and not (tmp_path / "out").exists()
    assert "--approver detached" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--approve", "--all"], "give one of"),
        (["--reject", "no", "--edit", "x.cu"], "give one of"),
        (["--approve"], "no decision is pending"),
        (["--source", "--approve"], "--source only prints"),
        (["--reject", " "], "give a reason"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, command: Command, words: list[str], said: str
) -> None:
    done = command("approve", write_transcript(tmp_path / "t.jsonl"), *words)
    assert done.code == 2 and said in done.err and len(done.lines) == 1
