"""Where a user's file stands in a git repository, and what git says of it. Nothing is written."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from astra_vgpu.ground.errors import BadInput, reading

GIT_TIMEOUT_S = 30.0
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")
"""Variables that turn git to another repository."""


@dataclass(frozen=True)
class Place:
    """A file, and the folder that its name in a patch starts from."""

    path: Path
    top: Path
    """The top of its repository; without one its own folder."""
    in_git: bool

    @property
    def name(self) -> str:
        return self.path.relative_to(self.top).as_posix()

    @property
    def mode(self) -> str:
        """Git's: 100644, or 100755 of an executable file."""
        return "100755" if os.access(self.path, os.X_OK) else "100644"


def place_of(file: Path) -> Place:
    """Raises BadInput where there is no such file, or a link in its place."""
    if file.is_symlink():
        raise BadInput(
            f"{file} is a link, which a patch would replace: give {file.resolve()} instead"
        )
    with reading(file), file.open("rb"):
        path = file.resolve()
    top = _top(path.parent)
    return Place(path, top or path.parent, top is not None)


def _top(folder: Path) -> Path | None:
    """The top of the repository that a folder is in."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)


def blob_id(content: bytes) -> str:
    """The name that git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def head_of(place: Place) -> str:
    """The commit that is checked out; "" where there is none."""
    return (_git(place, "rev-parse", "--verify", "--quiet", "HEAD") or "") if place.in_git else ""


def warning(place: Place) -> str | None:
    """What the user has to know of the file's place, in one line: it is in no repository, or in
    another than this folder, or is not as the commit has it that is checked out."""
    if not place.in_git:
        return (
            f"{place.path} is not in a git repository: paths in the patch are relative to"
            f" {place.top}"
        )
    if _top(Path.cwd()) not in (None, place.top):
        return (
            f"{place.path} is not in this repository: paths in the patch are relative to"
            f" {place.top}"
        )
    committed = _git(place, "rev-parse", "--verify", "--quiet", f"HEAD:{place.name}")
    if committed is None:
        return f"{place.name} is not in HEAD: the patch is against the file as it is now"
    if committed != _git(place, "hash-object", "--", place.name):
        return f"{place.name} differs from HEAD: the patch is against the file as it is now"
    return None


def _git(place: Place, *words: str) -> str | None:
    """What git prints; None where it fails."""
    kept = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        done = subprocess.run(
            ["git", "-C", str(place.top), *words],
            env={**kept, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
