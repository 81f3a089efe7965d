"""The task of a recorded run, out of its transcript alone."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from astra_chat.tools.task.folder import Task, find_task, load_task
from astra_chat.tools.task.tiers import TIER_FILES
from astra_chat.tools.text import one_line
from astra_chat.tools.types import sha256_of
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.turns import texts
from astra_vgpu.ground.errors import BadInput

MAX_CHARACTERS = 2**26
"""Characters of all files of a recorded task together, at most."""


@contextmanager
def task_of(transcript: Transcript, given: str | Path | None) -> Iterator[Task]:
    """The task as the transcript has it; where the user names one, that, if it is the same."""
    recorded = transcript.header.task
    if given is not None:
        task = find_task(str(given))
        if task.id != recorded.id:
            hashes = {name: sha256_of(text) for name, text in task.files().items()}
            raise BadInput(
                f"{transcript.path} was judged with different files of {recorded.name}:"
                f" {', '.join(_different(recorded.files, hashes))}; omit TASK to continue"
                " with the recorded files"
            )
        yield task
        return
    with tempfile.TemporaryDirectory(prefix="astra-task-") as name:
        stored = texts(transcript.records)
        write_task_files(transcript.path, recorded.files, stored, Path(name))
        yield load_task(Path(name))


def _different(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """Names of files that are not the same."""
    return sorted(name for name in before | now if before.get(name) != now.get(name))


def write_task_files(
    where: Path, files: Mapping[str, str], stored: Mapping[str, str], folder: Path
) -> None:
    """Write a task's files, named by their hashes in `stored`, into a folder. Raises BadInput,
    which begins with `where` they come from, for what is too large or leads out of the folder."""
    size = 0
    for name, sha in files.items():
        _require_name(where, name)
        size += len(stored[sha])
        if size > MAX_CHARACTERS:
            raise BadInput(f"{where}: the task's files exceed {MAX_CHARACTERS:,} characters")
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(stored[sha])
        except (OSError, ValueError):
            raise BadInput(
                f"{where}: the task's file '{one_line(name)[:200]}' cannot be written"
            ) from None


def _require_name(where: Path, name: str) -> None:
    """Raise BadInput unless a file's name stays in its folder, in every reading of it."""
    parts = name.split("/")
    if any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        raise BadInput(
            f"{where}: the task's file '{one_line(name)[:200]}' points outside its folder"
        )


def baseline_text(transcript: Transcript) -> str:
    """Source of the baseline. Raises BadInput where the transcript has none."""
    name = TIER_FILES[transcript.header.options.tier]
    sha = transcript.header.task.files.get(name)
    if sha is None:
        raise BadInput(f"{transcript.path}: the task's {name} is missing")
    return texts(transcript.records)[sha]


def require_hashes(transcript: Transcript) -> None:
    """Raises BadInput where a recorded text is not the one that its hash names."""
    for sha, text in texts(transcript.records).items():
        if sha256_of(text) != sha:
            raise BadInput(
                f"{transcript.path}: the text {sha[:12]} was changed: its hash does not match"
            )
