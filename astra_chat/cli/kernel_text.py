"""The text of a file that the user names, or of stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from astra_chat.arguments import STDIN
from astra_vgpu.ground.errors import reading

MAX_CHARACTERS = 2**20


def text_of(path: Path, most: int = MAX_CHARACTERS) -> str:
    """The first `most` characters of a file, or of stdin for "-": of /dev/zero there is no end, and
    who checks the text says that it is too long. Raises BadInput where it cannot be read."""
    with reading(path):
        if str(path) == STDIN:
            return sys.stdin.buffer.read(most).decode()
        with path.open(encoding="utf-8") as file:
            return file.read(most)
