"""Opens a file that may be anybody's."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from astra_vgpu.ground.errors import BadInput


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
