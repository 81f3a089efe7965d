"""A lock that all processes of this machine see: a file, locked by flock(2), which the kernel frees
when its process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_vgpu.ground.errors import BadInput


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
