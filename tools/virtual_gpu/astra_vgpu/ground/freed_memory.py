"""How the C library's malloc deals with freed memory, in processes that make many large arrays."""

from __future__ import annotations

import ctypes
import functools

KEPT_BYTES = 1 << 28


@functools.cache
def keep_freed_memory() -> None:
    """Tells malloc not to give freed arrays back to the kernel between two instructions.

    The page faults of getting them again would cost several times what the arithmetic does.
    """
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # malloc.h
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        for option in (trim_threshold, mmap_threshold):
            libc.mallopt(option, KEPT_BYTES)
        libc.mallopt(top_pad, KEPT_BYTES // 8)
