"""Campaigns of the sample task whose models and judge are played from a recording."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from astra_chat.models.open_models import open_models
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.run_folder import TRANSCRIPT
from tests.astra_chat.run_samples import chat_request
from tests.astra_chat.test_kill import NO_WINNER
from tests.chat_samples import FixedJudge, story

TEXT = """schema = 1
tasks = ["{task}"]
models = ["replay:{recording}"]
mutants = 0
"""


def record(task: Task, folder: Path) -> Path:
    """A recording of the task's scripted run."""
    path = folder / "recording.jsonl"
    models = open_models(f"record:{path}:scripted", task)
    request = chat_request(task, folder / "recorded", models=models)
    run_request(request, judge=FixedJudge(NO_WINNER))
    return path


def write_file(task: Task, folder: Path, *more: str, **changes: Any) -> Path:
    """A campaign file about it."""
    path = folder / "campaign.toml"
    places = {"task": task.folder, "recording": record(task, folder), **changes}
    path.write_text(TEXT.format_map(places) + "\n".join(more) + "\n")
    return path


@contextmanager
def driver(file: Path, out: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """`astra-chat campaign` in a process of its own."""
    argv = [sys.executable, "-m", "astra_chat", "campaign", str(file), "-o", str(out), *words]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
        process.communicate()


def stories(out: Path) -> dict[str, list[str]]:
    """The story of each run, by its name."""
    found = sorted((out / "runs").glob(f"*/{TRANSCRIPT}"))
    return {path.parent.name: story(path) for path in found}
