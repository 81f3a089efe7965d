"""What builds leave for the next time: a folder a content hash, published by one atomic rename.

Its size has a limit (cache_size.py): entries that were not used for longest go first, never one
that a live process uses.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_vgpu.ground import cache_size
from astra_vgpu.ground.cache_size import cache_root
from astra_vgpu.ground.errors import MissingDependency


def cache_folder(kind: str) -> Path:
    """Folder of one kind of entries; made if missing. Raises MissingDependency."""
    folder = cache_root() / kind
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MissingDependency(
            f"cannot write the cache folder {folder} ({error.strerror}); set ASTRA_CACHE"
        ) from None
    return folder


@contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """Raises MissingDependency where the disk of a folder of the cache is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise MissingDependency(
            f"no space left in {folder}: free some (astra-chat cache clear) or set ASTRA_CACHE"
        ) from None


def in_cache(entry: Path) -> bool:
    """Whether the cache has this entry; if so it stays there until this process ends."""
    with cache_size.uses_allowed(entry):
        if not entry.is_dir():
            return False
        cache_size.mark_used(entry)
        return True


@contextmanager
def new_entry(final: Path) -> Iterator[Path]:
    """A scratch folder that becomes the entry `final` when the block ends well; the first of two
    wins. It stays there until this process ends; others may have to go for it."""
    scratch = Path(tempfile.mkdtemp(prefix=".making-", dir=final.parent))
    try:
        yield scratch
        with cache_size.uses_allowed(final):
            try:
                scratch.rename(final)
            except OSError:
                if not final.is_dir():
                    raise
            cache_size.mark_used(final)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    cache_size.after_growth(final)
