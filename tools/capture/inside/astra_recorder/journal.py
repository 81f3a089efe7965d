"""The journal of one process: lines of JSON, each written as soon as it is known, so that a process
that dies leaves what it saw."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Journal:
    """Appends to a file of this process's own."""

    def __init__(self, folder: Path) -> None:
        path = folder / f"{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def line(self, kind: str, **fields: Any) -> None:
        """Append a line; whole lines only reach the file."""
        os.write(self._file, (json.dumps({"kind": kind, **fields}) + "\n").encode())
