"""The task of a recorded run, out of its transcript alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_chat.tools.errors import BadInput
from astra_chat.tools.tasks import Task, find_task, load_task
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.turns import texts


@contextmanager
def task_of(transcript: Transcript, given: str | Path | None) -> Iterator[Task]:
    """The task as the transcript has it; where the user names one, that, if it is the same."""
    recorded = transcript.header.task
    if given is not None:
        task = find_task(str(given))
        if task.id != recorded.id:
            hashes = {name: sha256_of(text) for name, text in task.files().items()}
            raise BadInput(
                f"{transcript.path} was judged by other files of {recorded.name}:"
                f" {', '.join(_different(recorded.files, hashes))}; leave TASK away to go on"
                " with the recorded ones"
            )
        yield task
        return
    with tempfile.TemporaryDirectory(prefix="astra-task-") as name:
        _write_files(transcript, Path(name))
        yield load_task(Path(name))


def _different(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Names of files that are not the same."""
    return sorted(name for name in before | now if before.get(name) != now.get(name))


def _write_files(transcript: Transcript, folder: Path) -> None:
    stored = texts(transcript.records)
    for name, sha in transcript.header.task.files.items():
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise BadInput(f"{transcript.path}: the task's file '{name}' leads out of its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stored[sha])
