"""The device heap: malloc, free, new and delete in kernels."""

from __future__ import annotations

import bisect

import numpy as np
from numpy.typing import NDArray

DEFAULT_BYTES = 8 << 20
"""cudaLimitMallocHeapSize, unless a program asks for more."""
ALIGNMENT_BYTES = 32
"""CUDA guarantees 16. Sectors have 32: so counters hardly depend on the order of calls."""
FREED_TWICE = "free of an address that malloc did not return, or a double free"
NAME = "the device's heap"
UNWRITTEN = 0xA5


class Heap:
    """Blocks of one buffer, by first fit. `address` is that of its first byte."""

    def __init__(self, nbytes: int) -> None:
        self.array: NDArray[np.uint8] = np.zeros(nbytes + ALIGNMENT_BYTES, np.uint8)
        skip = -int(self.array.ctypes.data) % ALIGNMENT_BYTES
        self.array = self.array[skip : skip + nbytes]
        self.address = int(self.array.ctypes.data)
        self.allocated: NDArray[np.uint8] = np.zeros(nbytes, np.uint8)
        """Whether each byte may be touched."""
        self.written: NDArray[np.bool_] | None = None
        """Which bytes hold something: `written` of the heap's buffer."""
        self._taken: dict[int, int] = {}
        self._free: list[tuple[int, int]] = [(0, nbytes)]
        """(offset, bytes), by offset; no two meet."""

    def take(self, nbytes: int) -> int:
        """malloc: an address, or 0 where there is no room."""
        wanted = -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        for at, (offset, room) in enumerate(self._free):
            if 0 < wanted <= room:
                self._free[at : at + 1] = (
                    [(offset + wanted, room - wanted)] if room > wanted else []
                )
                self._taken[offset] = nbytes
                there = slice(offset, offset + nbytes)
                self.array[there], self.allocated[there] = UNWRITTEN, 1
                if self.written is not None:
                    self.written[there] = False
                return self.address + offset
        return 0

    def give(self, address: int) -> bool:
        """free: whether malloc returned this and it was not freed since. 0 is no address."""
        if not address:
            return True
        offset = address - self.address
        nbytes = self._taken.pop(offset, None)
        if nbytes is None:
            return False
        self.allocated[offset : offset + nbytes] = 0
        self._add(offset, -(-nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
        return True

    def _add(self, offset: int, room: int) -> None:
        at = bisect.bisect(self._free, (offset, 0))
        if at < len(self._free) and self._free[at][0] == offset + room:
            room += self._free.pop(at)[1]
        if at and sum(self._free[at - 1]) == offset:
            offset, before = self._free.pop(at - 1)
            room, at = room + before, at - 1
        self._free.insert(at, (offset, room))
