"""The floating-point state of the host in which a real launcher is called: two, in turn.

A server may flush denormals, and a library that it loads may have set that for all of its threads.
x86-64 with glibc; elsewhere nothing is changed.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

FLUSHED = 0x8040
"""Bits of MXCSR by which results and operands that are denormal count as zero."""
EXCEPTIONS = 0x3F
"""Bits of MXCSR for the exceptions that have been raised."""
_ENVIRONMENT_BYTES, _MXCSR_AT = 32, 28
"""Size of glibc's fenv_t and offset of MXCSR in it, in bytes."""
_KNOWN = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
_MATH = ctypes.CDLL("libm.so.6") if _KNOWN else None
"""Loaded before a process locks itself."""


@contextmanager
def floating_point_state(number: int) -> Iterator[None]:
    """Set the state of this thread for the call with this number, and restore it: every second one
    flushes denormals and has raised all exceptions."""
    if _MATH is None:
        yield
        return
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    _MATH.fegetenv(before)
    mxcsr = int.from_bytes(before.raw[_MXCSR_AT:], "little") & ~(FLUSHED | EXCEPTIONS)
    mxcsr |= FLUSHED | EXCEPTIONS if number % 2 else 0
    changed = before.raw[:_MXCSR_AT] + mxcsr.to_bytes(4, "little")
    drawn = ctypes.create_string_buffer(changed, _ENVIRONMENT_BYTES)
    _MATH.fesetenv(drawn)
    try:
        yield
    finally:
        _MATH.fesetenv(before)
