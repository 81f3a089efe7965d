"""`judge answer`: jobs on stdin, results on stdout, and an end where nobody waits."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from astra_chat.detached.answering import answered, at_end_of, framed, read_framed
from astra_chat.detached.jobs import read_job
from astra_chat.detached.packing import pack_job, unpack_job
from astra_chat.detached.results import result_of
from astra_chat.tools.task.folder import Task
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.job_samples import put, worker

COMMAND = [sys.executable, "-m", "astra_chat", "judge", "answer", "--device", "virtual"]


def packed(folder: Path, out: Path) -> bytes:
    pack_job(folder, out)
    return out.read_bytes()


def test_jobs_go_in_and_results_come_out(task: Task, tmp_path: Path) -> None:
    folder = put(tmp_path / "jobs", task)
    jobs = packed(folder, tmp_path / "out.zip")
    one, lines = worker()
    (tmp_path / "back.zip").write_bytes(answered(jobs, one))
    assert unpack_job(tmp_path / "back.zip", folder, read_job(folder)) and len(lines) == 1
    assert result_of(folder, read_job(folder)) is not None
    with pytest.raises(BadInput, match="not a job archive"):
        answered(b"PK", one)


def test_what_is_no_frame() -> None:
    assert read_framed(io.BytesIO(framed(b"abc") + b"more")) == b"abc"
    for given, words in (
        (b"", "no jobs on stdin"),
        (b"astra-jobs x\n", "no jobs on stdin"),
        (b"astra-jobs 3", "no jobs on stdin"),
        (b"astra-jobs 9\nabc", "cut off after 3 of 9"),
        (b"astra-jobs 999999999999\n", "the jobs have"),
    ):
        with pytest.raises(BadInput, match=words):
            read_framed(io.BytesIO(given))


def test_the_end_of_stdin_calls_once_and_not_after_the_work() -> None:
    read, write = os.pipe()
    called = threading.Event()
    with os.fdopen(read, "rb") as source:
        done = at_end_of(source, called.set)
        assert not called.wait(0.05)
        os.close(write)
        assert called.wait(30) and not done.is_set()


def test_the_command_leaves_nothing_behind_when_its_asker_is_gone(
    task: Task, tmp_path: Path
) -> None:
    """Its stdin ends while it compiles: it stops as by Ctrl-C, and cleans up."""
    source = (task.folder / "baseline.cu").read_text() + f"// {tmp_path.name}\n"
    jobs = packed(put(tmp_path / "jobs", task, source), tmp_path / "out.zip")
    there = tmp_path / "there"
    there.mkdir()
    child = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(there)},
        bufsize=0,
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(framed(jobs))
    while not list(there.glob("astra-job-*")):
        assert child.poll() is None
        threading.Event().wait(0.02)
    child.stdin.close()
    assert child.stdout.read() == b"" and child.wait(60) in (130, -signal.SIGINT)
    assert not list(there.iterdir())
