"""Inputs and expected outputs that every run of a task needs, kept in the cache by their content.

A run draws the seeds of nearly all its cases. Those whose seeds the task states are the same in
each run: timed cases, and check cases as they are written. An entry is named by all that it depends
on; its files are copied, and each must have the hash that was noted when it was kept.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, sha256_of
from astra_vgpu.ground.cache import cache_folder, in_cache, new_entry
from astra_vgpu.ground.errors import MissingDependency

logger = logging.getLogger(__name__)

KIND, NOTES = "oracle", "files.json"
MOST_BYTES = 2**27
"""Most bytes of a case's files: a 32nd of what the cache holds by default."""
CHUNK_BYTES = 2**20
Folders = Mapping[str, Path]
"""Folders of one case, by what lies in them."""


@dataclass
class KeptResults:
    """The kept cases of one task."""

    task: Task

    @cached_property
    def _stated(self) -> frozenset[str]:
        """Keys of the cases whose seeds the task states."""
        timed = (case for case, _ in (*self.task.demo, *self.task.bench))
        return frozenset(case.key for case in (*self.task.check, *timed))

    def are_of(self, case: Case) -> bool:
        """Whether every run has this case."""
        return case.key in self._stated

    @cached_property
    def _made_by(self) -> str:
        return "\0".join((self.task.id, judge_sha256(), version("torch"), platform.machine()))

    def take(self, case: Case, into: Folders) -> bool:
        """Copy what is kept of a case into these empty folders; False where that is nothing, or was
        changed: then they may hold a part of it."""
        try:
            entry = self._entry(case)
            if not in_cache(entry):
                return False
        except MissingDependency:  # there is no cache
            return False
        try:
            if _taken(entry, into):
                return True
            why: object = "it was changed"
        except (OSError, ValueError, KeyError) as error:
            why = error
        logger.warning("%s: rebuilding %s in the cache: %s", self.task.name, case, why)
        shutil.rmtree(entry, ignore_errors=True)
        return False

    def keep(self, case: Case, made: Folders) -> None:
        """Keep the files of these folders, in which reference.py may have left anything."""
        try:
            if sum(p.lstat().st_size for one in made.values() for p in one.iterdir()) > MOST_BYTES:
                return
            with new_entry(self._entry(case)) as scratch:
                notes = {place: _kept(one, scratch / place) for place, one in made.items()}
                (scratch / NOTES).write_text(json.dumps(notes))
        except (OSError, MissingDependency) as error:
            logger.info("%s: %s is not cached: %s", self.task.name, case, error)

    def _entry(self, case: Case) -> Path:
        return cache_folder(KIND) / sha256_of(f"{self._made_by}\0{case.key}")[:32]


def _kept(folder: Path, target: Path) -> dict[str, str]:
    """Copies the files of a folder, but no link's target; their hashes by name."""
    found = dict[str, str]()
    target.mkdir()
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name in os.listdir(opened):  # noqa: PTH208
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened)
            found[name] = _copied(file, target / name)
    finally:
        os.close(opened)
    return found


def _taken(entry: Path, into: Folders) -> bool:
    """Whether all files of an entry are copied and unchanged."""
    notes = json.loads((entry / NOTES).read_text())
    for place, folder in into.items():
        for name, noted in notes[place].items():
            if Path(name).name != name:
                return False
            file = os.open(entry / place / name, os.O_RDONLY)
            if _copied(file, folder / name) != noted:
                return False
    return True


def _copied(file: int, target: Path) -> str:
    """Copies an opened file, which is closed; the hexadecimal sha256 of what was copied."""
    digest = sha256()
    with os.fdopen(file, "rb") as read, target.open("xb") as written:
        while chunk := read.read(CHUNK_BYTES):
            digest.update(chunk)
            written.write(chunk)
    return digest.hexdigest()
