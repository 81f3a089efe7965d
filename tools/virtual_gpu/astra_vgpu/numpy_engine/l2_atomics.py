"""Atomics in L2: how many are serialized, per sector and per region of L2."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.memory.buffers import Buffer
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.types import ATOMIC_REGION_BYTES, SECTOR_BYTES, Counters

_REGION_SECTORS = ATOMIC_REGION_BYTES // SECTOR_BYTES
Turns = NDArray[np.int64]


@dataclass
class AtomicTurns:
    """Turns of L2 for the atomics of a launch."""

    lanes: int = 0
    every: dict[int, Turns] = field(default_factory=dict)
    """Turns of each sector of a buffer, by the buffer's address."""
    floats: dict[int, Turns] = field(default_factory=dict)
    """Turns of atomics on floats at each sector of a buffer, by the buffer's address."""

    def add(self, buffer: Buffer, warps: NDArray[np.int64], addresses: Array, floats: bool) -> None:
        """One instruction of some lanes: their warps, which ascend, and addresses.

        A sector of a request takes as many turns as its most wanted address has lanes; a warp's
        integers at one address are gathered to one.
        """
        self.lanes += warps.size
        order = np.lexsort((addresses, warps))
        warp, place = warps[order], addresses[order].view(np.int64)
        runs = _starts(warp, place)
        lanes = np.diff(np.append(runs, warp.size))
        warp, sector = warp[runs], place[runs] // SECTOR_BYTES
        if not floats:
            alone = np.bincount(warp)[warp] == 1
            lanes = np.where(alone, 1, lanes)
        requests = _starts(warp, sector)
        turns = np.maximum.reduceat(lanes, requests)
        at = sector[requests] - buffer.address // SECTOR_BYTES
        for counts in (self.every, self.floats) if floats else (self.every,):
            if buffer.address not in counts:
                counts[buffer.address] = np.zeros(_sectors(buffer), np.int64)
            np.add.at(counts[buffer.address], at, turns)

    def finish(self, counters: Counters) -> None:
        counters.atomic_lanes = self.lanes
        counters.atomic_turns = sum(int(t.sum()) for t in self.every.values())
        counters.atomic_hottest_turns = max(map(_busiest, self.every.values()), default=0)
        counters.atomic_float_turns = max((int(t.max()) for t in self.floats.values()), default=0)


def _starts(*keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where runs of equal keys begin."""
    new = np.ones(keys[0].size, np.bool_)
    new[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.flatnonzero(new)


def _busiest(turns: Turns) -> int:
    return int(np.add.reduceat(turns, np.arange(0, turns.size, _REGION_SECTORS)).max())


def _sectors(buffer: Buffer) -> int:
    last = (buffer.address + max(buffer.nbytes, 1) - 1) // SECTOR_BYTES
    return last - buffer.address // SECTOR_BYTES + 1
