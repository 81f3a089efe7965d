"""How much memory a child process holds, with all that it started."""

from __future__ import annotations

import os
import time

from astra_chat.tools.system.process_tree import resident_bytes

WATCH_S = 0.1
RESIDENT_SHARE = 0.5
"""Share of the machine's memory that a child may hold before it is killed."""


class StepMemory(Exception):
    """The child held too much memory and was killed."""


class MemoryWatch:
    """Resident memory of a child and its children, looked at now and then."""

    def __init__(self, pid: int) -> None:
        self._pid, self._next = pid, 0.0

    def check(self) -> None:
        """Raises StepMemory where the child holds too much."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + WATCH_S
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # virtual ones can grow
        if resident_bytes(self._pid) > RESIDENT_SHARE * machine:
            raise StepMemory
