"""First touches: sectors that a block reads for the first time, and loads that wait for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active
from astra_vgpu.types import LINE_BYTES, SECTOR_BYTES, WARP_LANES

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LINE_SECTORS = np.uint64(LINE_BYTES // SECTOR_BYTES)
Keys = NDArray[np.uint64]


class KeySet:
    """A growing set of numbers other than 0, by open addressing, many at a time."""

    def __init__(self) -> None:
        self._bits, self._size = 12, 0
        self._table: Keys = np.zeros(1 << self._bits, np.uint64)
        self._notes = np.zeros(1 << self._bits, np.int64)

    def add(
        self, keys: Keys, notes: NDArray[np.int64]
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Adds different numbers, uint64 [n], each with a note; returns which of them are new, bool
        [n], and the notes that stood there, 0 for new ones."""
        while 2 * (self._size + keys.size) > self._table.size:
            there = self._table != 0
            kept, noted = self._table[there], self._notes[there]
            self._bits += 2
            self._table = np.zeros(1 << self._bits, np.uint64)
            self._notes = np.zeros(1 << self._bits, np.int64)
            self._notes[self._place(kept)[1]] = noted
        new, at = self._place(keys)
        self._size += int(np.count_nonzero(new))
        before = self._notes[at]
        self._notes[at] = notes
        return new, before

    def _place(self, keys: Keys) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which keys were not there, and where each is now."""
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
        return new, at


COPY_CYCLES, COPY_BYTES = 75, 32
"""What a bulk copy that is waited for takes beyond the round of a load, and its bytes a cycle. On
an idle H200: 90 cycles for 512 bytes, 100 to 330 for 4 KB, 220 to 640 for 16 KB, from L2 and DRAM.
"""


class Rounds(NamedTuple):
    """Rounds of loads behind an arrival at an mbarrier: those of its warp, and its copy if it is
    one."""

    all: int
    fresh: int
    """Rounds with sectors new to the block."""

    copy_cycles: int = 0
    """Cycles that the last of them takes beyond a load, if it is a bulk copy."""

    def most(self, other: Rounds) -> Rounds:
        last = max((self.all, self.copy_cycles), (other.all, other.copy_cycles))
        return Rounds(last[0], max(self.fresh, other.fresh), last[1])


NO_ROUNDS = Rounds(0, 0)


class FirstTouchRounds:
    """First touches of one batch of blocks; shape: its blocks and the threads of each, whole
    warps."""

    def __init__(self, shape: tuple[int, int], warps: int) -> None:
        self.sectors = 0
        """Different sectors of each block, summed."""
        self.lines = 0
        """Lines of all requests that hold a sector new to its block, summed."""
        self.late = 0
        """Sectors read again that were last touched more than a round ago."""
        self._shape = shape
        self._block_of = np.arange(warps) // (shape[1] // WARP_LANES)
        self._seen = KeySet()
        self.rounds = np.zeros(warps, np.int64)
        """Rounds of loads so far, by warp."""
        self.mbarrier_rounds, self.copy_cycles = np.zeros((2, warps), np.int64)
        """Counters.mbarrier_rounds and copy_cycles, by warp."""
        self._first_touches = np.zeros(warps, np.int64)
        self._pending = np.zeros(warps, np.uint64)
        """Rounds with a new sector, a bit each, of the region that a warp is in; by warp."""
        self._region = np.full(warps, -1)
        self._turn = np.zeros(warps, np.int64)

    def visit(self, region: int, warps: Any, rounds: int, turns: int) -> None:
        """The warps (an index) enter a region; `turns` visits of it share its rounds of loads."""
        turn = self._turn[warps] + 1
        again = (self._region[warps] == region) & (turn < turns)
        self._turn[warps] = np.where(again, turn, 0)
        self._region[warps] = region
        self.rounds[warps] += np.where(again, 0, rounds)
        left = np.where(again, np.uint64(0), self._pending[warps])
        self._first_touches[warps] += np.bitwise_count(left)
        self._pending[warps] ^= left

    def load(self, address: Array, active: Active, levels: Sequence[int]) -> None:
        """One load of the active lanes; levels: its round of the region, by turn."""
        warps, sectors, late = self._new(address, active)
        self.sectors += warps.size
        lines = np.stack((warps.astype(np.uint64), sectors // _LINE_SECTORS))
        self.lines += np.unique(lines, axis=1).shape[1]
        self.late += late
        if levels:
            bits = np.array([1 << min(level, 64) - 1 for level in levels], np.uint64)
            self._pending[warps] |= bits[self._turn[warps] % len(levels)]

    def store(self, address: Array, active: Active) -> None:
        """What is stored lies in L1 too."""
        self._new(address, active)

    def _new(self, address: Array, active: Active) -> tuple[NDArray[np.intp], Keys, int]:
        """The warp and number of each sector that is new to its block, and how many others come
        late."""
        sectors = np.broadcast_to(address // np.uint64(SECTOR_BYTES), self._shape)
        sectors = np.ascontiguousarray(sectors).reshape(-1, WARP_LANES)
        wanted = active.mask.reshape(-1, WARP_LANES).copy()
        wanted[:, 1:] &= (sectors[:, 1:] != sectors[:, :-1]) | ~wanted[:, :-1]
        warps = np.nonzero(wanted)[0]
        blocks = self._block_of[warps].astype(np.uint64)
        keys, first = np.unique(
            sectors[wanted] * np.uint64(self._shape[0]) + blocks, return_index=True
        )
        mine = warps[first]
        rounds = self.rounds[mine]
        new, before = self._seen.add(keys, rounds)
        late = ~new & (np.abs(rounds - before) > 1)
        return np.asarray(mine[new]), sectors[wanted][first][new], int(np.count_nonzero(late))

    def span(self, sectors: slice, nbytes: int, warp: int, *, reads: bool) -> Rounds:
        """A copy of sectors in a row that one warp begins; the rounds of who waits for it."""
        numbers = np.arange(sectors.start, sectors.stop, dtype=np.uint64)
        keys = numbers * np.uint64(self._shape[0]) + np.uint64(self._block_of[warp])
        new, _ = self._seen.add(keys, np.full(keys.size, self.rounds[warp]))
        if reads:
            self.sectors += int(np.count_nonzero(new))
            self.lines += np.unique(numbers[new] // _LINE_SECTORS).size
        known = self.rounds_of(warp)
        cycles = COPY_CYCLES + nbytes // COPY_BYTES
        return Rounds(known.all + 1, known.fresh + bool(new.any()), cycles)

    def rounds_of(self, warp: int) -> Rounds:
        """Rounds of a warp so far."""
        fresh = self._first_touches[warp] + np.bitwise_count(self._pending[warp])
        return Rounds(int(self.rounds[warp]), int(fresh))

    def wait_for(self, loads: Rounds, warp: int) -> None:
        """Who waited for a copy has waited for a load, after those before which the copy began; who
        waited for a warp, for that warp's loads."""
        known = self.rounds_of(warp)
        if (more := loads.all - known.all) > 0:
            self.rounds[warp] += more
            self.mbarrier_rounds[warp] += more
            self.copy_cycles[warp] += loads.copy_cycles
        self._first_touches[warp] += max(0, loads.fresh - known.fresh)

    def longest(self) -> int:
        """Most rounds of any one warp that waited for a sector new to its block."""
        return int((self._first_touches + np.bitwise_count(self._pending)).max())
