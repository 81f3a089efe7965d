"""Races on shared memory between warps: two accesses to the same bytes, one of them a write that
changes them, with no barrier in between.

Storing the value that is already there is no race: no order of the accesses can be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.numpy_engine import frame as machine
from astra_chat.tools.virtual_gpu.numpy_engine.arena import Index, Site, lane_number, select
from astra_chat.tools.virtual_gpu.numpy_engine.frame import Active, Frame
from astra_chat.tools.virtual_gpu.numpy_engine.kinds import Array
from astra_chat.tools.virtual_gpu.types import WARP_LANES

_MANY = 63
"""In place of a warp: several warps read it."""
_SHIFT = np.uint32(6)
Stamps = NDArray[np.uint32]


class RaceCheck:
    """Remembers for each granule of shared memory who wrote and who read it since which barrier.

    A stamp is epoch * 64 + warp + 1; epochs count the barriers of a block.
    """

    def __init__(self, shape: tuple[int, int], shared_bytes: int, granule: int) -> None:
        granules = shared_bytes // granule
        self._granule = granule
        self._writer: Stamps = np.zeros(granules, np.uint32)
        self._reader: Stamps = np.zeros(granules, np.uint32)
        warps = np.arange(shape[1], dtype=np.uint32)[None, :] // np.uint32(WARP_LANES)
        self._stamps: Stamps = np.broadcast_to(warps + np.uint32(65), shape).copy()

    def advance(self, rows: NDArray[np.bool_]) -> None:
        """A barrier of these blocks opened."""
        self._stamps[rows] += np.uint32(64)

    def read(self, f: Frame, site: Site, index: Index, active: Active) -> None:
        if site.ordered:
            return
        mine: Stamps = select(self._stamps, active, f.shape)
        for granules in self._granules(site, index):
            writer = self._writer[granules]
            clash = _others(writer, mine)
            if clash.any():
                raise self._fault(f, site, active, int(np.argmax(clash)), writer, "wrote")
            self._note_reader(granules, mine)

    def _note_reader(self, granules: Index, mine: Stamps) -> None:
        many = (mine & ~np.uint32(63)) | np.uint32(_MANY)
        stamp = np.where(_others(self._reader[granules], mine), many, mine)
        self._reader[granules] = stamp
        lost = self._reader[granules] != stamp
        if lost.any():
            self._reader[granules[lost]] = many[lost]

    def write(
        self,
        f: Frame,
        site: Site,
        index: Index,
        active: Active,
        before: Array,
        values: Array,
        after: Array,
    ) -> None:
        """before, after: what the bytes held round the store; values: what each lane stored."""
        if site.ordered:
            return
        mine: Stamps = select(self._stamps, active, f.shape)
        changed, overwritten = _differ(before, values), _differ(after, values)
        for granules in self._granules(site, index):
            earlier = self._writer[granules]
            self._writer[granules] = mine
            met = (
                (earlier, changed, "wrote"),
                (self._reader[granules], changed, "read"),
                (self._writer[granules], overwritten, "wrote"),
            )
            for stamps, matters, verb in met:
                clash = _others(stamps, mine) & matters
                if clash.any():
                    raise self._fault(f, site, active, int(np.argmax(clash)), stamps, verb)
            if not changed.all():
                self._writer[granules] = earlier
                self._writer[granules[changed]] = mine[changed]

    def _granules(self, site: Site, index: Index) -> Iterator[Index]:
        each = site.size // self._granule
        for part in range(each):
            yield index * each + part

    def _fault(
        self, f: Frame, site: Site, active: Active, lane: int, stamps: Stamps, verb: str
    ) -> Exception:
        number = lane_number(active, lane)
        mine = number % f.shape[1] // WARP_LANES
        other = int(stamps[lane]) % 64
        who = "several warps" if other == _MANY else f"warp {other - 1}"
        message = (
            f"shared-memory race: warp {mine} {site.verb}s {site.size} bytes that {who} {verb} "
            "since the last barrier"
        )
        return f.fault(site.instruction, "race", message, machine.LAUNCH_FAILURE, number)


def _others(stamps: Stamps, mine: Stamps) -> NDArray[np.bool_]:
    """Where a stamp is of the same epoch and of another warp."""
    return np.asarray(((stamps >> _SHIFT) == (mine >> _SHIFT)) & (stamps != mine))


def _differ(left: Array, right: Array) -> NDArray[Any]:
    if left.dtype.itemsize < 16:
        return np.asarray(left.view(right.dtype) != right)
    a, b = (x.view(np.uint64).reshape(-1, 2) for x in (left, right))
    return np.asarray((a != b).any(axis=1))
