"""Files that the user asked for, written whole or not at all; locks; files of anybody."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from astra_vgpu.ground.errors import BadInput


def write_whole(path: Path, content: bytes) -> None:
    """Replace the file at once; where that fails, an earlier one stays. Raises BadInput."""
    scratch = path.with_name(f".{path.name}.part")
    try:
        scratch.write_bytes(content)
        scratch.replace(path)
    except OSError as error:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise BadInput(f"cannot write {path}: {error.strerror}") from None


# A lock that all processes of this machine see: a file, locked by flock(2), which the kernel frees
# when its process ends, however it ends.


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Lock this file, which is made where there is none, during the block.

    Args:
        path: The lock file; no link is followed.
        wait: Whether to wait while another process has the lock.

    Raises:
        BadInput: The file cannot be opened for writing.
        BlockingIOError: Another process has the lock, and `wait` is false.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


# Opens a file that may be anybody's.


def open_regular(path: Path, most_bytes: int) -> BinaryIO:
    """Open a file that may be anybody's. Raises OSError, and BadInput for what is no regular file
    or too large."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe blocks nobody
    state = os.fstat(opened)
    if stat.S_ISREG(state.st_mode) and state.st_size <= most_bytes:
        return os.fdopen(opened, "rb")
    os.close(opened)
    if not stat.S_ISREG(state.st_mode):
        raise BadInput(f"cannot read {path}: not a regular file")
    raise BadInput(f"{path} has {state.st_size:,} bytes; at most {most_bytes:,} are allowed")
