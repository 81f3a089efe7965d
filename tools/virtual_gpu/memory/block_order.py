"""What orders thread blocks: who published what, and who has seen it.

A clock counts the events of a launch: fences, barriers, operations on flags. Each access that the
check for races between blocks remembers has the time and the warp. It is published up to a time:

- a warp's own accesses by an atomic operation or store of a flag that comes after a fence;
- those of another warp of the block where a barrier of the block lies between, too, with a fence
  behind it, or before it in the warp whose accesses they are.

Whoever then looks at that flag has acquired all that was published until the flag was last stored
or updated; the other warps of its block have acquired it from their next barrier on. Flags are told
apart by their address, but chains over several flags and blocks count: what is acquired is a time.
Lanes of a warp count as one. This accepts more than the memory model does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.types import WARP_LANES, Launch

FENCED, FENCED_OTHERS, MET, ACQUIRED, FENCED_BEFORE, PUBLISHED, FLAGGED = range(7)
"""Times of a warp: until when its own accesses lie behind a fence of its own, and those of others
of the block; its last barrier; what it has acquired; then until when its accesses lay behind any
fence at a barrier, are published, and, where they are reads, have a flag behind them."""
TIMES = 7
PLACES = 1 << 16
PLACE_BITS = 4
"""Flags within so many bytes, as a power of 2, are taken for one."""
Numbers = NDArray[np.int64]
Times = NDArray[np.uint32]


class BlockOrder:
    """Of one launch: of all its parts, whichever engine runs them."""

    def __init__(self, launch: Launch) -> None:
        self.warps = launch.block.warps
        self.times: Times = np.zeros((launch.grid.count, TIMES, self.warps), np.uint32)
        self.places: Times = np.zeros(PLACES, np.uint32)
        """When flags there were last stored or updated."""
        self.clock: Times = np.ones(1, np.uint32)

    @property
    def now(self) -> np.uint32:
        return np.uint32(self.clock[0])

    def restart(self) -> None:
        self.times[:] = 0
        self.places[:] = 0

    def fence(self, blocks: Numbers, active: NDArray[np.bool_]) -> None:
        """For the whole GPU. active: which warps, [blocks, warps]."""
        times = self.times[blocks]
        self._fence(times, active)
        self.times[blocks] = times
        self.clock += np.uint32(1)

    def meet(self, blocks: Numbers, active: NDArray[np.bool_]) -> None:
        """A barrier of these warps opened."""
        times = self.times[blocks]
        others, seen = _latest(times, FENCED_OTHERS, active), _latest(times, ACQUIRED, active)
        own = np.where(active, times[:, FENCED], np.uint32(0))
        times[:, FENCED_BEFORE] = np.maximum(np.maximum(times[:, FENCED_BEFORE], own), others)
        times[:, MET] = np.where(active, self.clock, times[:, MET])
        times[:, ACQUIRED] = np.where(active, seen, times[:, ACQUIRED])
        self.times[blocks] = times
        self.clock += np.uint32(1)

    def publish(
        self,
        blocks: Numbers,
        active: NDArray[np.bool_],
        addresses: NDArray[np.uint64],
        *,
        releases: bool,
        flags: bool,
    ) -> None:
        """These warps store or update something for others to see. flags: by a store."""
        times = self.times[blocks]
        if releases:
            self._fence(times, active)
        known = np.maximum(times[:, FENCED_BEFORE], _latest(times, FENCED_OTHERS, active))
        own = np.where(active, times[:, FENCED], np.uint32(0))
        times[:, PUBLISHED] = np.maximum(times[:, PUBLISHED], np.maximum(known, own))
        if flags:
            before = np.maximum(times[:, FLAGGED], _latest(times, MET, active))
            times[:, FLAGGED] = np.where(active, self.clock, before)
        self.times[blocks] = times
        self.places[_places(addresses)] = self.now
        self.clock += np.uint32(1)

    def acquire(
        self, blocks: Numbers, warps: NDArray[np.int64], addresses: NDArray[np.uint64]
    ) -> None:
        """One warp of a block for each address."""
        acquired = self.times[:, ACQUIRED]
        np.maximum.at(acquired, (blocks, warps), self.places[_places(addresses)])

    def ordered(
        self, first: Numbers, threads: NDArray[np.uint16], when: Times, did: str,
        second: Numbers, warps: NDArray[np.int64],
    ) -> NDArray[np.bool_]:  # fmt: skip
        """Accesses of blocks `first`, by these threads at these times, before those of `second`."""
        theirs = threads.astype(np.int64) // WARP_LANES
        until = self.times[first, PUBLISHED, theirs]
        if did == "read":
            until = np.maximum(until, self.times[first, FLAGGED, theirs])
        done = (when <= until) | (first == second)
        return np.asarray(done & (when <= self.times[second, ACQUIRED, warps]))

    def _fence(self, times: Times, active: NDArray[np.bool_]) -> None:
        times[:, FENCED] = np.where(active, self.clock, times[:, FENCED])
        times[:, FENCED_OTHERS] = np.where(active, times[:, MET], times[:, FENCED_OTHERS])


def _latest(times: Times, which: int, active: NDArray[np.bool_]) -> Times:
    """[blocks, 1]: of the active warps."""
    found = np.where(active, times[:, which], np.uint32(0)).max(axis=1, keepdims=True)
    return np.asarray(found)


def _places(addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
    words = addresses >> np.uint64(PLACE_BITS)
    return np.asarray((words ^ (words >> np.uint64(16))) & np.uint64(PLACES - 1))
