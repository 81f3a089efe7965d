"""How much memory a child process holds, with all that it started."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

WATCH_S = 0.1
RESIDENT_SHARE = 0.5
"""Of the machine's memory: what a child may hold before it is killed."""


class StepMemory(Exception):
    """The child held too much memory and was killed."""


class MemoryWatch:
    """Resident memory of a child and its children, looked at now and then."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child, self._next = child, 0.0

    def check(self) -> None:
        """Raises StepMemory."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + WATCH_S
        most = RESIDENT_SHARE * os.sysconf("SC_PHYS_PAGES")  # virtual machines can grow
        if sum(map(_resident_pages, _family(self._child.pid))) > most:
            raise StepMemory


def _family(pid: int) -> list[int]:
    """A process and all below it; empty where there is no /proc, or they are gone."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(below for child in children for below in _family(int(child)))]


def _resident_pages(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
