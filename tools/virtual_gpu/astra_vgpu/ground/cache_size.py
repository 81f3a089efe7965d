"""The size of the cache: what lies in it, what is in use, and what goes when it is too large.

Each process lists the entries that it uses in a file of its own under in-use/, which it keeps
locked (flock) as long as it lives: the kernel frees the lock of a process that ends, however it
ends. Entries are marked under a shared lock of the whole cache and removed under an exclusive one.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path

from astra_vgpu.ground.errors import BadInput

LIMIT_VARIABLE = "ASTRA_CACHE_LIMIT"
DEFAULT_LIMIT_BYTES = 4 * 2**30
KEPT_SHARE = 0.9
"""Share of the limit that is left when entries had to go, so that the next one need not go
again."""
GROWTH_SHARE = 0.01
"""Share of the limit that one process may add before the whole is measured again."""
MEASURED_EVERY_S = 600
"""Time after which the cache is measured again too, when an entry is added."""
SCRATCH_LIFE_S = 24 * 3600
"""Scratch folders older than this are of processes that were killed."""
IN_USE, LOCK = "in-use", ".lock"
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def cache_root() -> Path:
    """$ASTRA_CACHE, else the user's cache folder; it need not be there."""
    base = os.environ.get("ASTRA_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return ((Path(base) if base else Path.home() / ".cache") / "astra-chat").absolute()


def limit_bytes() -> int:
    """$ASTRA_CACHE_LIMIT, such as 500M or 4GiB, else 4 GiB. Raises BadInput."""
    text = os.environ.get(LIMIT_VARIABLE, "").strip()
    return parse_size(text, LIMIT_VARIABLE) if text else DEFAULT_LIMIT_BYTES


def parse_size(text: str, name: str) -> int:
    """Bytes of "4G", "4GiB", "500 MB" (all powers of 1024) or "1000". Raises BadInput."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        raise BadInput(f"{name}={text}: give a size such as 500M or 4G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


@dataclass(frozen=True)
class Entry:
    """One folder of the cache."""

    path: Path
    size_bytes: int
    used_s: float
    """When it was last used, in seconds since the epoch."""
    in_use: bool
    """Whether a live process uses it."""

    @property
    def kind(self) -> str:
        return self.path.parent.name


@dataclass(frozen=True)
class Removed:
    """What a clean-up took away."""

    entries: int
    size_bytes: int


def entries() -> list[Entry]:
    """Everything in the cache, the entry that was not used for longest first."""
    used = _used_now()
    every = [_entry(path, used) for kind in _kinds() for path in kind.iterdir() if _whole(path)]
    return sorted((one for one in every if one is not None), key=lambda one: one.used_s)


def shrink(to_bytes: int) -> Removed:
    """Remove entries until the rest is no larger, least recently used ones first; what is in use
    stays. Raises OSError where the cache cannot be written."""
    if not cache_root().is_dir():
        return Removed(0, 0)
    gone: list[Entry] = []
    with _lock(fcntl.LOCK_EX):
        _remove_leftovers()
        every = entries()
        left = sum(one.size_bytes for one in every)
        for entry in every:
            if left <= to_bytes:
                break
            if not entry.in_use:
                _remove(entry.path)
                left -= entry.size_bytes
                gone.append(entry)
    return Removed(len(gone), sum(one.size_bytes for one in gone))


@contextmanager
def uses_allowed(entry: Path) -> Iterator[None]:
    """While this is held nothing is removed. A cache that is only read has no lock: nothing can be
    removed there either."""
    with ExitStack() as held:
        if _ours(entry):
            with suppress(OSError):
                held.enter_context(_lock(fcntl.LOCK_SH))
        yield


def mark_used(entry: Path) -> None:
    """The entry is in use from now on until this process ends; call it within `uses_allowed`."""
    if _ours(entry):
        with suppress(OSError):
            os.utime(entry)
            _Uses.of(cache_root()).add(entry)


def after_growth(entry: Path) -> None:
    """Called when an entry was added: keeps the cache within its limit."""
    if not _ours(entry):
        return
    limit = limit_bytes()
    with suppress(OSError):
        uses = _Uses.of(cache_root())
        uses.added_bytes += _size(entry)
        if uses.added_bytes < GROWTH_SHARE * limit and not _measured_long_ago():
            return
        uses.added_bytes = 0
        (cache_root() / LOCK).touch()
        if sum(one.size_bytes for one in entries()) > limit:
            shrink(int(KEPT_SHARE * limit))


def _measured_long_ago() -> bool:
    return time.time() - (cache_root() / LOCK).stat().st_mtime > MEASURED_EVERY_S


class _Uses:
    """This process's list of entries in use."""

    _open: dict[Path, _Uses] = {}  # noqa: RUF012

    def __init__(self, root: Path) -> None:
        folder = root / IN_USE
        folder.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f"{os.getpid()}-", dir=folder)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        self._descriptor, self._listed = descriptor, set[Path]()
        self.path, self.added_bytes = Path(name), 0

    @classmethod
    def of(cls, root: Path) -> _Uses:
        """The list for this cache; made again where somebody removed it. Raises OSError."""
        uses = cls._open.get(root)
        if uses is None or not uses.path.is_file():
            uses = cls._open[root] = cls(root)
        return uses

    def add(self, entry: Path) -> None:
        if entry not in self._listed:
            os.write(self._descriptor, f"{entry.absolute()}\n".encode())
            self._listed.add(entry)


@contextmanager
def _lock(kind: int) -> Iterator[None]:
    with (cache_root() / LOCK).open("a") as file:
        fcntl.flock(file, kind)
        yield


def _used_now() -> set[str]:
    """Paths of the entries that live processes use."""
    used: set[str] = set()
    for path in _files(cache_root() / IN_USE):
        with suppress(OSError), path.open() as file:
            if _is_locked(file):
                used.update(file.read().splitlines())
    return used


def _is_locked(file: TextIOWrapper) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _remove_leftovers() -> None:
    """Removes lists of processes that ended, and scratch folders of those that were killed."""
    for path in _files(cache_root() / IN_USE):
        with suppress(OSError), path.open() as file:
            if not _is_locked(file):
                path.unlink()
    for kind in _kinds():
        for path in kind.glob(".*"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > SCRATCH_LIFE_S:
                    shutil.rmtree(path, ignore_errors=True)


def _remove(entry: Path) -> None:
    """Removes an entry, out of sight in one step: nobody ever sees half of it."""
    doomed = Path(tempfile.mkdtemp(prefix=".removing-", dir=entry.parent))
    entry.rename(doomed / entry.name)
    shutil.rmtree(doomed, ignore_errors=True)


def _ours(entry: Path) -> bool:
    return entry.absolute().parent.parent == cache_root()


def _kinds() -> list[Path]:
    root = cache_root()
    if not root.is_dir():
        return []
    return sorted(p for p in root.iterdir() if p.is_dir() and p.name != IN_USE)


def _files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []


def _whole(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _entry(path: Path, used: set[str]) -> Entry | None:
    """The entry of a folder; None where another process has just removed it."""
    try:
        return Entry(path, _size(path), path.stat().st_mtime, str(path) in used)
    except OSError:
        return None


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
