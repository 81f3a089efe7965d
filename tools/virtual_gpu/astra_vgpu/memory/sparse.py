"""Memory that costs only what is touched of it, however large it is."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

SPARSE_BYTES = 2**32
"""From here on Linux may refuse memory of which it would have to promise all."""
NO_RESERVE = 0x4000
"""Linux's MAP_NORESERVE, which Python 3.11 does not name."""


def zeroed(nbytes: int) -> NDArray[np.uint8]:
    """Zeros, [nbytes]. Raises MemoryError where there are not so many addresses."""
    if nbytes < SPARSE_BYTES:
        return np.zeros(nbytes, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    try:
        return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), np.uint8)
    except OSError:
        raise MemoryError from None
