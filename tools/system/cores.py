"""How many cores a process may use."""

from __future__ import annotations

import os

THREADS = "OMP_NUM_THREADS"
"""The variable that says how many threads a process may have where others share its machine."""


def cores() -> int:
    """Cores that this process may use: those of its machine, or as many as THREADS says."""
    usable, wanted = len(os.sched_getaffinity(0)), os.environ.get(THREADS, "")
    return min(usable, max(1, int(wanted))) if wanted.isdecimal() else usable
