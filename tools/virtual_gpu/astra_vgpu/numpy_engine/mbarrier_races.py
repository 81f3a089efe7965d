"""Race check for shared memory where mbarriers order some warps with some others.

A vector clock for each warp: a block has a time, which each release advances; a warp's accesses
carry the time of its last release, and it knows up to which time it has seen each other warp. Bulk
copies count as one more warp. Barriers of the block order everything. Where only some lanes of a
warp wait at an mbarrier, the others have seen what these have once the warp meets; different groups
of lanes that wait count as one. Lanes within a warp are checked as in every kernel: for that check
no two warps are ever in the same epoch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.isa.bulk_copies import NOT_FENCED
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import (
    Index,
    Site,
    lane_number,
    select,
)
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.shared_memory_races import (
    EPOCH_BIT,
    LANE_BIT,
    SEVERAL,
    UNKNOWN_SITE,
    WARP_BIT,
    Met,
    RaceCheck,
    differ,
    race_message,
    within,
)
from astra_vgpu.types import WARP_LANES

COPIES = 32
"""Number of the bulk copies among the warps."""
UNSEEN = (
    "access to bytes that a bulk copy wrote, by a thread that did not wait for the phase of its "
    "mbarrier, nor synchronized with one that did"
)
Clock = NDArray[np.int64]
"""[33]: by warp, the time up to which it was seen."""
Mask = NDArray[np.bool_]
_NEVER = np.iinfo(np.int64).max
ALL_LANES = (1 << WARP_LANES) - 1


class OrderedRaces(RaceCheck):
    """Remembers for each granule of shared memory the last write, the reads since, and when."""

    def __init__(self, shape: tuple[int, int], shared_bytes: int, granule: int) -> None:
        super().__init__(shape, shared_bytes, granule)
        warp = np.arange(shape[1], dtype=np.uint64) // np.uint64(WARP_LANES)
        self._stamps += warp << np.uint64(EPOCH_BIT)
        granules = shared_bytes // granule
        warps = shape[1] // WARP_LANES
        self._threads = shape[1]
        self._time = np.ones(shape[0], np.int64)
        self._base = np.ones(shape[0], np.int64)
        """Time of the last barrier of the block."""
        self._own = np.ones((shape[0], warps), np.int64)
        self._seen: Clock = np.zeros((shape[0], warps, COPIES + 1), np.int64)
        self._ahead: Clock = np.zeros_like(self._seen)
        """What only some lanes of a warp have seen, until it meets."""
        self._ahead_lanes, self._arrived = np.zeros((2, shape[0], warps), np.uint32)
        """These lanes; those that have arrived somewhere since their warp last met."""
        self._written, self._since = np.zeros((2, granules), np.int64)
        self._by = np.zeros(granules, np.int64)
        """Thread that wrote last."""
        self._readers = np.zeros(granules, np.uint32)
        """A bit for each warp that read since the last write or barrier."""
        self._unfenced = np.zeros(granules, np.bool_)
        """Stored, with no fence since that a copy out of shared memory needs."""

    def advance(self, rows: NDArray[np.bool_]) -> None:
        super().advance(rows)
        self._stamps[rows] += np.uint64((WARP_LANES - 1) << EPOCH_BIT)
        self._time[rows] += 1
        self._base[rows] = self._time[rows]
        self._own[rows] = self._time[rows, None]
        self._ahead_lanes[rows] = self._arrived[rows] = 0

    def synced(self, active: Active) -> None:
        super().synced(active)
        if self._ahead_lanes.any() or self._arrived.any():
            met = lanes_by_warp(active.mask)
            for row, warp in np.argwhere(met & self._ahead_lanes):
                self._share(row, warp)
            self._arrived[met != 0] = 0

    def counts_as_met(self, live: Mask, passed: Mask) -> NDArray[np.bool_]:
        """Which warps, [blocks, warps], have met where these lanes pass an mbarrier: all of their
        lanes did, or some of the others may have arrived at it."""
        lanes = lanes_by_warp(passed)
        rest = (lanes_by_warp(live) & ~lanes) == 0
        return np.asarray((lanes != 0) & (rest | ((self._arrived & ~lanes) != 0)))

    def _share(self, row: int, warp: int) -> None:
        """All lanes of a warp see what some have seen."""
        np.maximum(self._seen[row, warp], self._ahead[row, warp], out=self._seen[row, warp])
        self._ahead_lanes[row, warp] = 0

    def release(self, row: int, warp: int, lanes: int = ALL_LANES) -> Clock:
        """What comes before an arrival of these lanes of the warp now."""
        clock: Clock = self._seen[row, warp].copy()
        if int(self._ahead_lanes[row, warp]) & lanes:
            np.maximum(clock, self._ahead[row, warp], out=clock)
        clock[warp] = self._own[row, warp]
        self._arrived[row, warp] |= np.uint32(lanes)
        self._time[row] += 1
        self._own[row, warp] = self._time[row]
        return clock

    def acquire(
        self, row: int, warp: int, clock: Clock, lanes: int = ALL_LANES, live: int = ALL_LANES
    ) -> None:
        """What comes before the end of a phase comes before what these lanes of a warp do next."""
        if not self._ahead_lanes[row, warp]:
            self._ahead[row, warp] = 0
        np.maximum(self._ahead[row, warp], clock, out=self._ahead[row, warp])
        self._ahead_lanes[row, warp] |= np.uint32(lanes)
        if not live & ~int(self._ahead_lanes[row, warp]):
            self._share(row, warp)

    def copy_begins(self, f: Frame, site: Site, index: Index, active: Active) -> None:
        """Looked at when it has arrived: an mbarrier may order it behind the readers."""

    def copied(self, row: int, granules: slice) -> int:
        """A bulk copy arrives in a block; returns when."""
        self._time[row] += 1
        self._written[granules], self._by[granules] = self._time[row], COPIES * WARP_LANES
        self._readers[granules], self._unfenced[granules] = 0, False
        return int(self._time[row])

    def fence_before_copies(self, f: Frame, active: Active) -> None:
        """fence.proxy.async: copies may read what these warps stored, or saw stored."""
        rows, threads = self._who(active)
        for row, warp in set(zip(rows.tolist(), (threads // WARP_LANES).tolist(), strict=True)):
            start = self._origin(f, row * self._threads)
            own = self.granules(start, start + f.shared.limit)
            stored = np.flatnonzero(self._unfenced[own]) + own.start
            first = int(threads[(rows == row) & (threads // WARP_LANES == warp)][0])
            alone = np.full(stored.size, row), np.full(stored.size, first)
            late, _ = self._late_writers(stored, *alone)
            self._unfenced[stored[~late]] = False

    def check_copy(self, f: Frame, site: Site, lane: int, place: slice, changed: Mask) -> None:
        """A lane begins a copy to these bytes of the batch's shared memory. Raises Fault."""
        granules = np.arange(place.start // self._granule, place.stop // self._granule)
        alone = self._alone(lane, granules.size)
        matters = np.asarray(changed.reshape(granules.size, self._granule).any(axis=1))
        offset = place.start - self._origin(f, lane)
        late, others = self._late_writers(granules, *alone)
        self._refuse(f, site, late & matters, others, lane, offset, "wrote before")
        readers = self._late_readers(granules, *alone)
        self._refuse(f, site, matters & (readers >= 0), readers, lane, offset, "read before")
        self._refuse_in_warp(f, site, lane, granules, matters, offset)

    def _refuse_in_warp(
        self, f: Frame, site: Site, lane: int, granules: Index, matters: Mask, offset: int
    ) -> None:
        """Raises Fault where a copy changes what another lane of its warp used since they met."""
        row, thread = divmod(lane, self._threads)
        mine = self._stamps[row, thread]
        writers, readers = self._writer[granules], self._reader[granules]
        met: tuple[Met, ...] = (
            (writers, within(writers ^ mine) & ((writers & SEVERAL) == 0), "wrote"),
            (readers, within(readers ^ mine), "read"),
        )
        for stamps, clash, verb in met:
            if (clash & matters).any():
                at = int(np.argmax(clash & matters))
                stamp, number = int(stamps[at]), int(stamps[at]) & UNKNOWN_SITE
                message = race_message(
                    f.launch,
                    site.verb,
                    self._granule,
                    verb,
                    thread,
                    (stamp >> WARP_BIT & 31) * WARP_LANES + (stamp >> LANE_BIT & 31),
                    False,
                    None if number == UNKNOWN_SITE else self._sites[number].instruction,
                    f"shared offset {offset + at * self._granule}",
                )
                raise f.fault(site.instruction, "race", message, machine.LAUNCH_FAILURE, lane)

    def read_by_copy(self, f: Frame, site: Site, lane: int, place: slice) -> None:
        """A lane begins a copy from these bytes. Raises Fault."""
        granules = np.arange(place.start // self._granule, place.stop // self._granule)
        rows, threads = self._alone(lane, granules.size)
        late, others = self._late_writers(granules, rows, threads)
        offset = place.start - self._origin(f, lane)
        self._refuse(f, site, late, others, lane, offset, "wrote before")
        if (stored := np.flatnonzero(self._unfenced[granules])).size:
            message = f"{NOT_FENCED} (shared offset {offset + int(stored[0]) * self._granule})"
            where = site.instruction, "missing_fence", message, machine.LAUNCH_FAILURE
            raise f.fault(*where, lane)
        self._note_reads(granules, rows, threads)

    def _alone(self, lane: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        row, thread = divmod(lane, self._threads)
        return np.full(count, row), np.full(count, thread)

    def _origin(self, f: Frame, lane: int) -> int:
        return int(f.shared.origin[lane // self._threads, 0])

    def granules(self, start: int, end: int) -> slice:
        """Granules of bytes `start` to `end` of the batch's shared memory."""
        return slice(start // self._granule, -(-end // self._granule))

    def is_seen(self, row: int, thread: int, by: int, time: int) -> bool:
        """Whether what warp `by` did at that time comes before what a thread does now."""
        if by == thread // WARP_LANES or time < self._base[row]:
            return True
        return bool(self._seen_of(np.array([row]), np.array([thread]), by)[0] >= time)

    def _seen_of(
        self, rows: NDArray[np.int64], threads: NDArray[np.int64], by: NDArray[np.int64] | int
    ) -> NDArray[np.int64]:
        """Until when each thread has seen what warps `by` did."""
        warps, lanes = np.divmod(threads, WARP_LANES)
        seen = self._seen[rows, warps, by]
        ahead = self._ahead_lanes[rows, warps]
        if ahead.any():
            there = (ahead >> lanes.astype(np.uint32) & np.uint32(1)) != 0
            seen = np.where(there, np.maximum(seen, self._ahead[rows, warps, by]), seen)
        return np.asarray(seen)

    def read(self, f: Frame, site: Site, index: Index, active: Active) -> None:
        if site.ordered:
            return
        super().read(f, site, index, active)
        rows, threads = self._who(active)
        for granules in self._granules(site, index):
            late, others = self._late_writers(granules, rows, threads)
            self._refuse_one(f, site, index, active, late, others, "wrote before")
            self._note_reads(granules, rows, threads)

    def _note_reads(
        self, granules: Index, rows: NDArray[np.int64], threads: NDArray[np.int64]
    ) -> None:
        warps = threads // WARP_LANES
        old = self._since[granules] < self._base[rows]
        self._readers[granules[old]] = 0
        self._since[granules[self._readers[granules] == 0]] = _NEVER
        np.bitwise_or.at(self._readers, granules, np.uint32(1) << warps.astype(np.uint32))
        np.minimum.at(self._since, granules, self._own[rows, warps])

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
        if site.ordered:
            return
        super().write(f, site, index, active, before, values, after)
        rows, threads = self._who(active)
        warps = threads // WARP_LANES
        kind = site.float_type
        changed, overwritten = differ(before, values, kind), differ(after, values, kind)
        for granules in self._granules(site, index):
            late, others = self._late_writers(granules, rows, threads)
            self._refuse_one(f, site, index, active, late & changed, others, "wrote before")
            readers = self._late_readers(granules, rows, threads)
            late = changed & (readers >= 0)
            self._refuse_one(f, site, index, active, late, readers, "read before")
            where = granules[changed]
            self._written[where], self._by[where] = (
                self._own[rows, warps][changed],
                threads[changed],
            )
            self._readers[where], self._unfenced[where] = 0, True
            others = self._by[granules]
            lost = overwritten & (others // WARP_LANES != warps)
            self._refuse_one(f, site, index, active, lost, others, "writes at once")

    def _who(self, active: Active) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Block and thread of each active lane."""
        rows, threads = np.divmod(np.flatnonzero(active.mask), self._threads)
        return rows, threads

    def _late_writers(
        self, granules: Index, rows: NDArray[np.int64], threads: NDArray[np.int64]
    ) -> tuple[Mask, NDArray[np.int64]]:
        """Which granules another warp wrote that had not been seen, and the threads that did."""
        others = self._by[granules]
        time, by = self._written[granules], others // WARP_LANES
        late = (by != threads // WARP_LANES) & (time >= self._base[rows])
        late &= self._seen_of(rows, threads, by) < time
        return late, others

    def _late_readers(
        self, granules: Index, rows: NDArray[np.int64], threads: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """A thread of another warp that read each granule and had not been seen, or -1.

        Of several readers only those are reported that had not been seen when the first of them
        read.
        """
        late_readers = np.full(granules.size, -1, np.int64)
        since, masks = self._since[granules], self._readers[granules]
        fresh = (since >= self._base[rows]) & (masks != 0)
        readers = int(np.bitwise_or.reduce(masks))
        for other in [bit for bit in range(self._seen.shape[1]) if readers >> bit & 1]:
            there = (masks >> np.uint32(other) & np.uint32(1)).astype(np.bool_)
            late = there & fresh & (threads // WARP_LANES != other)
            late &= self._seen_of(rows, threads, other) < since
            late_readers[late] = other * WARP_LANES
        return late_readers

    def _refuse_one(
        self,
        f: Frame,
        site: Site,
        index: Index,
        active: Active,
        clash: Mask,
        others: NDArray[np.int64],
        did: str,
    ) -> None:
        """Raises Fault for the first clash among the items that each active lane touches."""
        if clash.any():
            at = int(np.argmax(clash))
            origin = int(select(f.shared.origin, active, f.shape)[at])
            offset = int(index[at]) * site.size - origin
            self._refuse(f, site, clash, others, lane_number(active, at), offset, did)

    def _refuse(
        self,
        f: Frame,
        site: Site,
        clash: Mask,
        others: NDArray[np.int64],
        lane: int,
        offset: int,
        did: str,
    ) -> None:
        if not clash.any():
            return
        other = int(others[int(np.argmax(clash))])
        kind, message = "race", f"{UNSEEN} (shared offset {offset})"
        if other // WARP_LANES == COPIES:
            kind = "missing_wait"
        else:
            message = mbarrier_race_message(
                lane % f.shape[1], site.verb, site.size, other, did, offset
            )
        raise f.fault(site.instruction, kind, message, machine.LAUNCH_FAILURE, lane)


def lanes_by_warp(mask: Mask) -> NDArray[np.uint32]:
    """A bit for each of these lanes, by warp. mask: [blocks, threads]."""
    bits = np.packbits(mask.reshape(mask.shape[0], -1, WARP_LANES), axis=2, bitorder="little")
    return np.asarray(bits.view(np.uint32)[:, :, 0])


def mbarrier_race_message(
    thread: int, does: str, size: int, other: int, did: str, offset: int
) -> str:
    """thread, other: linear in their block; of the other only the warp is named."""
    return (
        f"shared-memory race: warp {thread // WARP_LANES} {does}s {size} bytes that warp "
        f"{other // WARP_LANES} {did}, with no barrier nor mbarrier in between (shared offset "
        f"{offset})"
    )
