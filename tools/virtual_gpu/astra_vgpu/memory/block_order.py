"""What orders thread blocks: who published what, and who has seen it.

A clock counts the events of a launch: fences, barriers, operations on flags. Each access that the
check for races between blocks remembers has the time and the warp. It is published up to a time:

- a warp's own accesses by an atomic operation or store of a flag that comes after a fence;
- those of another warp of the block where a barrier of the block lies between, too, with a fence
  behind it, or before it in the warp whose accesses they are.

Whoever then looks at that flag has acquired all that was published until the flag was last stored
or updated; the other warps of its block have acquired it from their next barrier on. What a block
published at a flag counts once another block has looked at that flag since: not one that it stored
too early. Flags are told apart by their address, but chains over several flags and blocks count:
what is acquired is a time. Lanes of a warp count as one. This accepts more than the memory model
does: where a block publishes at one flag twice, what it stores in between counts as read after the
second time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.types import WARP_LANES, Launch

FENCED, FENCED_OTHERS, MET, ACQUIRED, FENCED_BEFORE, PUBLISHED, FLAGGED, PENDING = range(8)
"""Times of a warp: until when its own accesses lie behind a fence of its own, and those of others
of the block; its last barrier; what it has acquired; then until when its accesses lay behind any
fence at a barrier, are published, and, where they are reads, have a flag behind them. From PENDING
on: until when they are published at the last flags at which nobody has looked yet."""
FLAGS = 2
"""Most flags of a block that nobody has looked at; of more, the oldest counts as looked at."""
TIMES = PENDING + FLAGS
AT, SINCE = range(2)
"""Words of a flag in `pending`: its place + 1, or 0 for none; when it was stored or updated."""
LOOKED, LAST, OTHER = range(3)
"""Words of a place in `looks`: the block + 1 that looked last; when; and when another one did."""
PLACES = 1 << 16
PLACE_BITS = 4
"""Flags within so many bytes, as a power of 2, are taken for one."""
ROWS = 65521
"""Most blocks that are told apart, far more than run at once: in larger grids, blocks whose numbers
are equal modulo this count as one."""
Numbers = NDArray[np.int64]
Times = NDArray[np.uint32]


class BlockOrder:
    """What orders the blocks of one launch, in all its parts, whichever engine runs them."""

    def __init__(self, launch: Launch) -> None:
        self.warps = launch.block.warps
        self.rows = min(launch.grid.count, ROWS)
        """Number of blocks that are told apart: a block's row is its number modulo this."""
        self.times: Times = np.zeros((self.rows, TIMES, self.warps), np.uint32)
        self.places: Times = np.zeros(PLACES, np.uint32)
        """Time when flags at each place were last stored or updated."""
        self.pending: Times = np.zeros((self.rows, FLAGS, 2), np.uint32)
        self.looks: Times = np.zeros((PLACES, 3), np.uint32)
        self.clock: Times = np.ones(1, np.uint32)

    @property
    def now(self) -> np.uint32:
        return np.uint32(self.clock[0])

    def restart(self) -> None:
        for held in (self.times, self.places, self.pending, self.looks):
            held[:] = 0

    def fence(self, blocks: Numbers, active: NDArray[np.bool_]) -> None:
        """Notes a fence for the whole GPU. active: which warps, [blocks, warps]."""
        times = self.times[blocks % self.rows]
        self._fence(times, active)
        self.times[blocks % self.rows] = times
        self.clock += np.uint32(1)

    def meet(self, blocks: Numbers, active: NDArray[np.bool_]) -> None:
        """Notes that a barrier of these warps opened."""
        times = self.times[blocks % self.rows]
        others, seen = _latest(times, FENCED_OTHERS, active), _latest(times, ACQUIRED, active)
        own = np.where(active, times[:, FENCED], np.uint32(0))
        times[:, FENCED_BEFORE] = np.maximum(np.maximum(times[:, FENCED_BEFORE], own), others)
        times[:, MET] = np.where(active, self.clock, times[:, MET])
        times[:, ACQUIRED] = np.where(active, seen, times[:, ACQUIRED])
        self.times[blocks % self.rows] = times
        self.clock += np.uint32(1)

    def publish(
        self,
        blocks: Numbers,
        active: NDArray[np.bool_],
        rows: Numbers,
        addresses: NDArray[np.uint64],
        *,
        releases: bool,
        flags: bool,
    ) -> None:
        """These warps store or update something for others to see: each address is by the block of
        that row, in order. flags: by a store."""
        times = self.times[blocks % self.rows]
        if releases:
            self._fence(times, active)
        known = np.maximum(times[:, FENCED_BEFORE], _latest(times, FENCED_OTHERS, active))
        own = np.where(active, times[:, FENCED], np.uint32(0))
        places = _places(addresses)
        self._hold(blocks, times, np.maximum(known, own), places, rows)
        if flags:
            before = np.maximum(times[:, FLAGGED], _latest(times, MET, active))
            times[:, FLAGGED] = np.where(active, self.clock, before)
        self.times[blocks % self.rows] = times
        self.places[places] = self.now
        self.clock += np.uint32(1)

    def _hold(
        self, blocks: Numbers, times: Times, until: Times, places: Numbers, rows: Numbers
    ) -> None:
        """Notes that accesses up to `until` are published once another block looks at the place;
        where a block has several places, at once."""
        new = (until > times[:, PUBLISHED]).any(axis=1)
        if not new.any():
            return
        firsts = np.searchsorted(rows, np.arange(blocks.size))
        low, high = (f.reduceat(places, firsts) for f in (np.minimum, np.maximum))
        pending = self.pending[blocks % self.rows]
        seen = self._seen(blocks, pending)
        for flag in range(FLAGS):
            _raise(times, PUBLISHED, times[:, PENDING + flag], seen[:, flag])
        _raise(times, PUBLISHED, until, new & (low != high))
        same = pending[:, :, AT] == (low + 1)[:, None]
        free = seen | (pending[:, :, AT] == 0)
        choice = np.where(same, 0, np.where(free, 1, pending[:, :, SINCE].astype(np.int64) + 2))
        chosen = choice.argmin(axis=1)
        for flag in range(FLAGS):
            here = new & (low == high) & (chosen == flag)
            held = times[:, PENDING + flag]
            _raise(times, PUBLISHED, held, here & ~same[:, flag])
            kept = np.where(same[:, flag, None], np.maximum(held, until), until)
            times[:, PENDING + flag] = np.where(here[:, None], kept, held)
            pending[here, flag, AT] = low[here] + 1
            pending[here, flag, SINCE] = self.now
        self.pending[blocks % self.rows] = pending

    def _seen(self, blocks: Numbers, pending: Times) -> NDArray[np.bool_]:
        """Whether another block has looked at each of these blocks' flags since."""
        looks = self.looks[np.maximum(pending[..., AT], 1).astype(np.int64) - 1]
        others = looks[..., LOOKED] != (blocks + 1)[:, None]
        last = np.where(others, looks[..., LAST], looks[..., OTHER])
        return np.asarray((pending[..., AT] != 0) & (last > pending[..., SINCE]))

    def acquire(
        self, blocks: Numbers, warps: NDArray[np.int64], addresses: NDArray[np.uint64]
    ) -> None:
        """Notes that warps look at flags: one warp of a block for each address."""
        acquired, places = self.times[:, ACQUIRED], _places(addresses)
        np.maximum.at(acquired, (blocks % self.rows, warps), self.places[places])
        each, which = np.unique(places, return_inverse=True)
        low, high = np.full(each.size, blocks.max()), np.zeros(each.size, np.int64)
        np.minimum.at(low, which, blocks)
        np.maximum.at(high, which, blocks)
        looks = self.looks[each]
        before = np.where(looks[:, LOOKED] == high + 1, looks[:, OTHER], looks[:, LAST])
        looks[:, OTHER] = np.where(low == high, before, self.now)
        looks[:, LOOKED], looks[:, LAST] = high + 1, self.now
        self.looks[each] = looks

    def ordered(
        self,
        first: Numbers,
        threads: NDArray[np.uint16],
        when: Times,
        did: str,
        second: Numbers,
        warps: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Whether accesses of blocks `first`, at these times, come before those of `second`."""
        theirs, rows = threads.astype(np.int64) // WARP_LANES, first % self.rows
        until = self.times[rows, PUBLISHED, theirs]
        seen = self._seen(first, self.pending[rows])
        for flag in range(FLAGS):
            held = np.where(seen[:, flag], self.times[rows, PENDING + flag, theirs], 0)
            until = np.maximum(until, held.astype(np.uint32))
        if did == "read":
            until = np.maximum(until, self.times[rows, FLAGGED, theirs])
        done = (when <= until) | (first == second)
        return np.asarray(done & (when <= self.times[second % self.rows, ACQUIRED, warps]))

    def _fence(self, times: Times, active: NDArray[np.bool_]) -> None:
        times[:, FENCED] = np.where(active, self.clock, times[:, FENCED])
        times[:, FENCED_OTHERS] = np.where(active, times[:, MET], times[:, FENCED_OTHERS])


def _latest(times: Times, which: int, active: NDArray[np.bool_]) -> Times:
    """Latest of these times among the active warps of each block, [blocks, 1]."""
    found = np.where(active, times[:, which], np.uint32(0)).max(axis=1, keepdims=True)
    return np.asarray(found)


def _raise(times: Times, which: int, to: Times, rows: NDArray[np.bool_]) -> None:
    times[:, which] = np.where(rows[:, None], np.maximum(times[:, which], to), times[:, which])


def _places(addresses: NDArray[np.uint64]) -> Numbers:
    words = addresses >> np.uint64(PLACE_BITS)
    return ((words ^ (words >> np.uint64(16))) & np.uint64(PLACES - 1)).astype(np.int64)
