"""stdout and stderr of the whole program: readers that go away, disks that are full."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chat_samples import write_transcript

ROOT = Path(__file__).parents[3]


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `astra` is the program; its exit status is the program's own."""
    script = f'astra() {{ "{sys.executable}" -m astra_chat "$@"; }}; set -o pipefail; {line}'
    return subprocess.run(
        ["bash", "-c", script],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    return write_transcript(tmp_path / "t.jsonl")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_is_no_error(transcript: Path, unbuffered: str) -> None:
    done = shell(f"astra replay {transcript} | true", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failure_keeps_its_exit_code_without_a_reader(tmp_path: Path) -> None:
    done = shell(f"astra replay {tmp_path}/none.jsonl | true")
    assert done.returncode == 2 and "cannot read" in done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_stdout_is_exit_3_and_one_line(transcript: Path, unbuffered: str) -> None:
    done = shell(f"astra replay {transcript} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 3
    assert done.stderr == "astra-chat: cannot write to stdout: No space left on device\n"


def test_a_full_stderr_changes_nothing(tmp_path: Path) -> None:
    assert shell(f"astra replay {tmp_path}/none.jsonl 2> /dev/full").returncode == 2


def test_closed_streams_are_no_error(transcript: Path) -> None:
    assert shell(f"astra replay {transcript} >&- 2>&-").returncode == 0


def test_a_terminal_of_ascii_gets_escape_sequences(transcript: Path) -> None:
    done = shell(f"astra replay {transcript}", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.isascii()
