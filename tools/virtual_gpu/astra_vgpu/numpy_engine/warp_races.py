"""The check for races between threads of a block on global memory, on arrays of lanes.

The rules are in memory/warp_races.py.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.memory.warp_races import (
    FLAG_PLACE_BITS,
    FLAG_PLACES,
    KIND,
    Stamps,
    WatchedBuffers,
)
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine.address_spaces import (
    BufferRegion,
    Site,
    lane_number,
    select,
)
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.shared_memory_races import (
    EPOCH_BIT,
    LANE_BIT,
    MANY,
    MAX_SYNCS,
    SEVERAL,
    UNKNOWN_SITE,
    WARP_BIT,
    Verb,
    between,
    clashes,
    count_sync,
    differ,
    first_clash,
    race_message,
    threads_of,
    within,
    writers_clash,
)
from astra_vgpu.types import WARP_LANES

NDStamps = NDArray[np.uint64]
NDTimes = NDArray[np.uint32]
Mask = NDArray[np.bool_]
Granules = NDArray[np.int64]
MOST_EPOCHS = 1 << (64 - EPOCH_BIT)
_WARP = np.uint64(31 << WARP_BIT)


class WarpRaces:
    """The stamps of the threads of one batch, and what orders them."""

    def __init__(self, shape: tuple[int, int], watched: WatchedBuffers) -> None:
        self.watched = watched
        self.stamps: NDStamps = np.broadcast_to(threads_of(shape[1]), shape).copy()
        self._threads = threads_of(shape[1])
        self._syncs = 0
        self.flags = _Flags(shape) if watched.orders else None
        self.advance(np.ones(shape[0], np.bool_))

    def advance(self, rows: Mask) -> None:
        """Something ordered the warps of each of these blocks."""
        count = int(np.count_nonzero(rows))
        first = self.watched.epochs + 1
        self.watched.epochs += count
        epochs = np.arange(first, first + count, dtype=np.uint64) << np.uint64(EPOCH_BIT)
        self.stamps[rows] = self._threads | epochs[:, None]

    @property
    def on(self) -> bool:
        """Epochs are left: without, nothing more is checked."""
        return self.watched.epochs < MOST_EPOCHS

    def synced(self, active: Active) -> None:
        """Lanes of these warps met: __syncwarp() or the like; it orders the whole warp."""
        self._syncs += 1
        if self._syncs % MAX_SYNCS == 0:
            self.advance(np.ones(self.stamps.shape[0], np.bool_))
        else:
            count_sync(self.stamps, active)


class _Flags:
    """What orders the warps of a block through global memory: who released at which place until
    when, and who looked there. A clock counts the operations of the batch that order."""

    def __init__(self, shape: tuple[int, int]) -> None:
        warps = shape[0], shape[1] // WARP_LANES
        self._warps = warps[1]
        self.released: NDTimes = np.zeros(warps, np.uint32).reshape(-1)
        self.acquired: NDTimes = np.zeros(warps, np.uint32).reshape(-1)
        self._places: NDTimes = np.zeros((shape[0], FLAG_PLACES), np.uint32)
        self.clock = np.uint32(1)

    def synchronise(self, addresses: Array, active: Active, *, writes: bool, looks: bool) -> None:
        rows, threads = np.nonzero(active.mask)
        at = np.broadcast_to(addresses.reshape(-1), rows.shape)
        words = at.astype(np.uint64) >> np.uint64(FLAG_PLACE_BITS)
        places = (words % np.uint64(FLAG_PLACES)).astype(np.int64)
        warps = rows * self._warps + threads // WARP_LANES
        if writes:
            self.released[warps] = self.clock
            self._places[rows, places] = self.clock
        if looks:
            np.maximum.at(self.acquired, warps, self._places[rows, places])
        self.clock += np.uint32(1)

    def ordered(self, rows: Granules, mine: NDStamps, met: NDStamps, when: NDTimes) -> Mask:
        """Whether what these stamps did, at these times, comes before what `mine` do now."""
        warp, other = (
            rows * self._warps + ((stamps & _WARP) >> np.uint64(WARP_BIT)).astype(np.int64)
            for stamps in (mine, met)
        )
        done = (when <= self.released[other]) | (warp == other)
        return np.asarray(done & (when <= self.acquired[warp]))


def synchronise(
    f: Frame, site: Site, addresses: Array, active: Active, *, flags: bool = False
) -> None:
    """An atomic or ordered operation of these lanes. flags: it stores, and looks at nothing."""
    if f.warp_races is not None and f.warp_races.flags is not None:
        looks = not flags and not site.sums
        f.warp_races.flags.synchronise(addresses, active, writes=site.writes, looks=looks)


def met(f: Frame, lanes: Mask) -> None:
    """Something ordered the warps of these lanes' blocks."""
    if f.warp_races is not None:
        f.warp_races.advance(np.asarray(lanes.any(axis=1)))


@dataclass
class Access:
    """One plain access of some lanes to one buffer that is watched, granule by granule."""

    f: Frame
    races: WarpRaces
    site: Site
    region: BufferRegion
    active: Active
    stamps: Stamps
    granules: Granules
    """Granules that each lane touches, lane after lane: lanes x parts."""
    mine: NDStamps
    rows: Granules | None
    """Row of the batch's block for each of `granules`; None unless flags may order."""
    parts: int

    def read(self) -> None:
        writers = self.stamps.writers[self.granules]
        clash = writers_clash(writers, self.mine)
        self._stop(clash, writers, self.stamps.writer_times, "wrote")
        self._stop_at_sums(None)
        self._note(self.stamps.readers, self.stamps.reader_times)

    def write(self, before: Array, values: Array, after: Array) -> None:
        """before, after: what the places held round the store; values: what each lane stored."""
        kind = self.site.float_type
        changed = np.repeat(differ(before, values, kind), self.parts)
        overwritten = np.repeat(differ(after, values, kind), self.parts)
        if changed.any():
            self._change(changed, overwritten)
        if not changed.all():
            self._some(~changed)._note(self.stamps.readers, self.stamps.reader_times)

    def _some(self, among: Mask) -> Access:
        """The access of some granules only."""
        rows = None if self.rows is None else self.rows[among]
        return replace(self, granules=self.granules[among], mine=self.mine[among], rows=rows)

    def _change(self, changed: Mask, overwritten: Mask) -> None:
        """A store of which some lanes change what is there, and some lose to others."""
        stamps, granules, mine = self.stamps, self.granules, self.mine
        earlier, readers = stamps.writers[granules], stamps.readers[granules]
        stamps.writers[granules] = mine
        last = stamps.writers[granules]
        self._stop(writers_clash(earlier, mine) & changed, earlier, stamps.writer_times, "wrote")
        self._stop(clashes(readers, mine) & changed, readers, stamps.reader_times, "read")
        self._stop(clashes(last, mine) & overwritten, last, None, "at once")
        self._stop_at_sums(changed)
        if not changed.all():
            stamps.writers[granules] = earlier
            stamps.writers[granules[changed]] = mine[changed]
            last = stamps.writers[granules]
        alike = changed & within(last ^ mine)
        if alike.any():
            stamps.writers[granules[alike]] |= SEVERAL
        if stamps.writer_times is not None and self.races.flags is not None:
            stamps.writer_times[granules[changed]] = self.races.flags.clock

    def update(self) -> None:
        """An atomic operation."""
        writers = self.stamps.writers[self.granules]
        clash = writers_clash(writers, self.mine)
        self._stop(clash, writers, self.stamps.writer_times, "wrote")
        if self.site.sums and self.stamps.adders is not None:
            self._note(self.stamps.adders, self.stamps.adder_times)

    def _stop_at_sums(self, among: Mask | None) -> None:
        if self.stamps.adders is None:
            return
        adders = self.stamps.adders[self.granules]
        clash = clashes(adders, self.mine)
        if among is not None:
            clash &= among
        self._stop(clash, adders, self.stamps.adder_times, "changed atomically")

    def _ordered(self, known: NDStamps, times: NDTimes | None, among: Mask) -> Mask:
        """Which of these stamps a flag orders before this access, looked for `among` these."""
        found = np.zeros(among.shape, np.bool_)
        if times is None or self.rows is None or self.races.flags is None or not among.any():
            return found
        found[among] = self.races.flags.ordered(
            self.rows[among], self.mine[among], known[among], times[self.granules[among]]
        )
        return found

    def _note(self, noted: NDStamps, times: NDTimes | None) -> None:
        """Notes that these lanes, which do not race with one another, were there."""
        granules, mine = self.granules, self.mine
        known = noted[granules]
        apart = known ^ mine
        if apart.min() < np.uint64(1) << np.uint64(EPOCH_BIT):  # no barrier lies between
            outside = between(apart)
            if outside.any():
                outside &= ~self._ordered(known, times, outside)
            mine = np.where(within(apart), mine | SEVERAL, mine)
            mine = np.where(outside, mine | MANY, mine)
        noted[granules] = mine
        last = noted[granules]
        lost = last != mine
        if lost.any():
            where, held, own = granules[lost], last[lost], mine[lost]
            inside, outside = within(held ^ own), between(held ^ own)
            noted[where[inside]] = held[inside] | SEVERAL
            noted[where[outside]] = held[outside] | MANY
        if times is not None and self.races.flags is not None:
            times[granules] = self.races.flags.clock

    def _stop(self, clash: Mask, known: NDStamps, times: NDTimes | None, verb: Verb) -> None:
        """Raises Fault for the first lane that clashes and that nothing orders."""
        if not clash.any():
            return
        clash = clash & ~self._ordered(known, times, clash)
        if clash.any():
            at = first_clash(clash, known ^ self.mine)
            raise self._fault(at // self.parts, int(known[at]), verb)

    def _fault(self, at: int, stamp: int, verb: Verb) -> Exception:
        chosen = self.region.chosen
        lane = lane_number(self.active, at if chosen is None else int(chosen[at]))
        site, f = self.site, self.f
        index = self.region.index.reshape(-1)
        start = int(index[0 if index.size == 1 else at]) * site.size
        address = self.region.buffer.items(site.size)[1] + start
        message = global_race_message(
            f, site.verb, site.size, verb, lane % f.shape[1], stamp, self.races.watched, address
        )
        return f.fault(site.instruction, "race", message, machine.LAUNCH_FAILURE, lane)


def global_race_message(
    f: Frame,
    does: str,
    size: int,
    verb: Verb,
    thread: int,
    stamp: int,
    watched: WatchedBuffers,
    address: int,
) -> str:
    other = (stamp >> WARP_BIT & 31) * WARP_LANES + (stamp >> LANE_BIT & 31)
    instruction = watched.site(stamp & UNKNOWN_SITE)
    return race_message(
        f.launch,
        does,
        size,
        verb,
        thread,
        other,
        bool(stamp & int(MANY)),
        instruction,
        f.memory.place(address),
        KIND,
    )


def access(
    f: Frame, site: Site, region: BufferRegion, addresses: Array, active: Active
) -> Access | None:
    """Returns the access as the check sees it; None if the buffer is not watched."""
    races = f.warp_races
    if races is None or (stamps := races.watched.by_address.get(region.buffer.address)) is None:
        return None
    if not races.on:
        return None
    mine = select(races.stamps, active, f.shape)
    rows = None
    if races.flags is not None:
        rows = np.nonzero(active.mask)[0]
    if addresses.size != active.count:  # one address for all
        addresses = np.broadcast_to(addresses, mine.shape)
    elif region.chosen is not None:
        addresses, mine = addresses[region.chosen], mine[region.chosen]
        rows = None if rows is None else rows[region.chosen]
    number = races.watched.reach.number(site.instruction)
    bits = races.watched.granule_bits
    start = (addresses >> np.uint64(bits)).astype(np.int64) - (region.buffer.address >> bits)
    mine = mine | np.uint64(number if number < UNKNOWN_SITE else 0)
    parts = max(site.size >> bits, 1)
    if parts > 1:
        start = (start[:, None] + np.arange(parts)).reshape(-1)
        mine = np.repeat(mine, parts)
        rows = None if rows is None else np.repeat(rows, parts)
    return Access(f, races, site, region, active, stamps, start, mine, rows, parts)
