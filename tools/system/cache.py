"""Where builds are kept: a folder a content hash, published by one atomic rename."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_chat.tools.errors import MissingDependency


def cache_folder(kind: str) -> Path:
    """$ASTRA_CACHE, else the user's cache folder; made if missing. Raises MissingDependency."""
    base = os.environ.get("ASTRA_CACHE") or os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    folder = root / "astra-chat" / kind
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
            f"no space left in {folder}: free some or set ASTRA_CACHE"
        ) from None


@contextmanager
def new_entry(final: Path) -> Iterator[Path]:
    """A scratch folder that becomes `final` when the block ends well; the first of two wins."""
    scratch = Path(tempfile.mkdtemp(prefix=".making-", dir=final.parent))
    try:
        yield scratch
        try:
            scratch.rename(final)
        except OSError:
            if not final.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
