"""Which sectors a block reads for the first time, and how many rounds of loads wait for such."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.numpy_engine.frame import Active
from astra_chat.tools.virtual_gpu.numpy_engine.kinds import Array
from astra_chat.tools.virtual_gpu.types import SECTOR_BYTES, WARP_LANES

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
Keys = NDArray[np.uint64]


class KeySet:
    """A growing set of numbers other than 0, by open addressing, many at a time."""

    def __init__(self) -> None:
        self._bits, self._size = 12, 0
        self._table: Keys = np.zeros(1 << self._bits, np.uint64)

    def add(self, keys: Keys) -> NDArray[np.bool_]:
        """Adds different numbers, uint64 [n]; returns which of them are new, bool [n]."""
        while 2 * (self._size + keys.size) > self._table.size:
            kept = self._table[self._table != 0]
            self._bits += 2
            self._table = np.zeros(1 << self._bits, np.uint64)
            self._place(kept)
        new = self._place(keys)
        self._size += int(np.count_nonzero(new))
        return new

    def _place(self, keys: Keys) -> NDArray[np.bool_]:
        new = np.zeros(keys.size, np.bool_)
        at = (keys * _GOLDEN >> np.uint64(64 - self._bits)).astype(np.int64)
        left = np.arange(keys.size)
        while left.size:
            slots = at[left]
            empty = self._table[slots] == 0
            self._table[slots[empty]] = keys[left[empty]]
            settled = self._table[slots] == keys[left]
            new[left[settled & empty]] = True
            left = left[~settled]
            at[left] = (at[left] + 1) & (self._table.size - 1)
        return new


class FreshRounds:
    """Of one batch of blocks; shape: its blocks and the threads of each, whole warps."""

    def __init__(self, shape: tuple[int, int], warps: int) -> None:
        self.sectors = 0
        """Different sectors of each block, summed."""
        self._shape = shape
        self._block_of = np.arange(warps) // (shape[1] // WARP_LANES)
        self._seen = KeySet()
        self._pending = np.zeros(warps, np.bool_)
        self._here = np.zeros(warps, np.int64)
        self._rounds = np.zeros(warps, np.int64)

    def visit(self, warps: Any, rounds: int) -> None:
        """The warps (an index) enter a region with that many rounds of loads, or parts of one."""
        self._rounds[warps] += np.where(self._pending[warps], self._here[warps], 0)
        self._pending[warps] = False
        self._here[warps] = rounds

    def load(self, address: Array, active: Active) -> None:
        """One load of the active lanes."""
        sectors = np.broadcast_to(address // np.uint64(SECTOR_BYTES), self._shape)
        sectors = np.ascontiguousarray(sectors).reshape(-1, WARP_LANES)
        wanted = active.mask.reshape(-1, WARP_LANES).copy()
        wanted[:, 1:] &= (sectors[:, 1:] != sectors[:, :-1]) | ~wanted[:, :-1]
        warps = np.nonzero(wanted)[0]
        blocks = self._block_of[warps].astype(np.uint64)
        keys, first = np.unique(
            sectors[wanted] * np.uint64(self._shape[0]) + blocks, return_index=True
        )
        new = self._seen.add(keys)
        self.sectors += int(np.count_nonzero(new))
        self._pending[warps[first[new]]] = True

    def span(self, sectors: slice, warp: int) -> None:
        """A copy of sectors in a row by one warp."""
        numbers = np.arange(sectors.start, sectors.stop, dtype=np.uint64)
        keys = numbers * np.uint64(self._shape[0]) + np.uint64(self._block_of[warp])
        new = int(np.count_nonzero(self._seen.add(keys)))
        self.sectors += new
        self._pending[warp] |= new > 0

    def longest(self) -> int:
        """Most rounds of any one warp that waited for a sector new to its block."""
        return int((self._rounds + np.where(self._pending, self._here, 0)).max())
