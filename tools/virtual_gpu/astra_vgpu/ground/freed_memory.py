"""How the C library's malloc deals with freed memory, in processes that make many large arrays."""

from __future__ import annotations

import ctypes
import functools

TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4
"""Options of glibc's mallopt (malloc.h)."""
KEPT_BYTES = 1 << 30
PAD_BYTES = 1 << 25


@functools.cache
def keep_freed_memory() -> None:
    """Tells malloc not to give freed arrays back to the kernel, in this process and in those that
    it forks.

    The page faults of getting them again would cost several times what the arithmetic does. glibc
    has no mmap threshold above 32 MiB, so it is told to map no array by itself. Another C library,
    which has no mallopt, stays as it is.
    """
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(MMAP_MAX, 0)
        mallopt(TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(TOP_PAD, PAD_BYTES)
