"""Keeps what a process frees for its next arrays, instead of giving it back to the system."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4
"""Options of glibc's mallopt (malloc.h)."""
KEPT_BYTES = 2**30


def keep_arrays() -> None:
    """Let malloc reuse the memory of freed arrays, in this process and in those that it forks.

    glibc maps an array of more than 32 MiB (any that was not yet freed once) anew and unmaps it
    when it is freed, and the kernel clears each of its pages again: 7 % of a check's processor
    time. Another C library, which has no mallopt, stays as it is.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(M_MMAP_MAX, 0)
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
