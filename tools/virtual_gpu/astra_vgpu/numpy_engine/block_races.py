"""The check for races between blocks on arrays of lanes; the rules are in memory/block_races.py."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.memory.block_races import (
    FLAG,
    MANY,
    STORED_AND_CACHED,
    BlockRaces,
)
from astra_vgpu.numpy_engine import frame as machine
from astra_vgpu.numpy_engine import proxy_fences, warp_races
from astra_vgpu.numpy_engine.address_spaces import (
    BufferRegion,
    Site,
    lane_number,
    select,
)
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Active, Frame
from astra_vgpu.numpy_engine.shared_memory_races import differ
from astra_vgpu.types import MEETING_BYTES, WARP_LANES

Mask = NDArray[np.bool_]
Words = NDArray[np.uint32]
_MANY = np.uint32(MANY)
Did = Literal["read", "read late", "wrote", "updated"]


def fence(f: Frame, active: Active) -> None:
    """Notes a fence for the whole GPU, by these lanes' warps."""
    if f.block_races is not None and f.block_races.order is not None:
        rows, warps = _warps(active.mask)
        f.block_races.order.fence(f.blocks[rows], warps)


def meet(f: Frame, lanes: Mask) -> None:
    """Notes that a barrier of these lanes' warps opened."""
    warp_races.met(f, lanes)
    proxy_fences.learned(f, lanes)
    if f.block_races is not None and f.block_races.order is not None and lanes.any():
        rows, warps = _warps(lanes)
        f.block_races.order.meet(f.blocks[rows], warps)


def meet_all(f: Frame, active: Active) -> None:
    """Something orders some warps of these lanes' blocks, and all count."""
    meet(f, f.live & active.mask.any(axis=1, keepdims=True))


def synchronise(
    f: Frame, site: Site, addresses: Array, active: Active, *, flags: bool = False
) -> None:
    """An atomic or volatile operation of these lanes. addresses: of these lanes, or one; flags: it
    stores something for others to see, and looks at nothing."""
    warp_races.synchronise(f, site, addresses, active, flags=flags)
    if not flags:
        proxy_fences.learned(f, active.mask, of_blocks=True)
    if f.block_races is None or f.block_races.order is None:
        return
    place, order = f.launch.meeting_place, f.block_races.order
    if place and place <= int(addresses.flat[0]) < place + MEETING_BYTES:
        return  # where the grid meets: that is seen once all are there (grid_sync.py)
    rows, warps = _warps(active.mask)
    mine, threads = np.nonzero(active.mask)
    at = addresses.reshape(-1).astype(np.uint64)
    at = np.broadcast_to(at, mine.shape) if at.size == 1 else at
    # A block that updates looks at what was there before; of several at once each may see others.
    looks, looks_first = not flags and not site.sums, rows.size == 1
    if looks and (looks_first or not site.writes):
        order.acquire(f.blocks[mine], threads // WARP_LANES, at)
    if site.writes:
        of = np.searchsorted(rows, mine)
        order.publish(f.blocks[rows], warps, of, at, releases=site.releases, flags=flags)
    if looks and site.writes and not looks_first:
        order.acquire(f.blocks[mine], threads // WARP_LANES, at)


def _warps(lanes: Mask) -> tuple[NDArray[np.int64], Mask]:
    """Rows with any of these lanes, and which of their warps have some, [rows, warps]."""
    warps = np.asarray(lanes.reshape(lanes.shape[0], -1, WARP_LANES).any(axis=2))
    rows = np.flatnonzero(np.asarray(warps.any(axis=1)))
    return rows, np.asarray(warps[rows])


class Touch:
    """One plain access of some lanes to one buffer that is watched."""

    def __init__(
        self,
        f: Frame,
        block_races: BlockRaces,
        site: Site,
        region: BufferRegion,
        addresses: Array,
        active: Active,
    ) -> None:
        self._f, self._block_races, self._site, self._active = f, block_races, site, active
        assert region.buffer.cells is not None
        self._buffer, self._cells = region.buffer, region.buffer.cells
        mine = addresses if region.chosen is None else addresses[region.chosen]
        self._uniform, self._chosen = addresses.size != active.count, region.chosen
        if self._uniform:  # one address for all
            rows = active.mask.any(axis=1)
            blocks, threads = f.blocks[rows], np.argmax(active.mask[rows], axis=1)
            mine = np.broadcast_to(mine, blocks.shape)
        else:
            blocks = select(np.broadcast_to(f.blocks[:, None], f.shape), active, f.shape)
            threads = select(np.arange(f.shape[1])[None, :], active, f.shape)
            if region.chosen is not None:
                blocks, threads = blocks[region.chosen], threads[region.chosen]
        self._threads = threads.astype(np.uint16)
        self._addresses = mine
        self._shift = np.uint32(block_races.site_bits)
        self._block = (blocks + 1).astype(np.uint32)
        self._now = np.uint32(0) if block_races.order is None else block_races.order.now
        number = block_races.number(site.instruction)
        self._mine: Words = (self._block << self._shift) | np.uint32(number)

    def _granules(self) -> Iterator[NDArray[np.int64]]:
        bits = self._block_races.granule_bits
        first = self._buffer.address >> bits
        start = (self._addresses >> np.uint64(bits)).astype(np.int64) - first
        for part in range(max(self._site.size >> bits, 1)):
            yield start + part

    def _others(self, cells: Words) -> Mask:
        """Which cells are of another block."""
        return np.asarray((cells != 0) & (((cells & ~_MANY) >> self._shift) != self._block))

    def _unordered(
        self, granules: NDArray[np.int64], cells: Words, clash: Mask, did: Did = "wrote"
    ) -> Mask:
        order = self._block_races.order
        threads, times = self._when(did)
        if order is None or threads is None or times is None or not clash.any():
            return clash
        found = clash.copy()
        first = ((cells[clash] & ~_MANY) >> self._shift).astype(np.int64) - 1
        at, mine = granules[clash], self._block[clash].astype(np.int64) - 1
        warps = self._threads[clash].astype(np.int64) // WARP_LANES
        found[clash] = ~order.ordered(
            first, threads[at], times[at], did.removesuffix(" late"), mine, warps
        )
        return found

    def _when(self, did: Did) -> tuple[NDArray[np.uint16] | None, Words | None]:
        """Threads and times of the cells of those who did that."""
        cells = self._cells
        if did == "updated":
            return cells.adder_threads, cells.adder_times
        if did == "wrote":
            return cells.writer_threads, cells.writer_times
        if did == "read late":
            return cells.late_reader_threads, cells.late_reader_times
        return cells.reader_threads, cells.reader_times

    def _note_writer(self, granules: NDArray[np.int64], threads: NDArray[np.uint16]) -> None:
        if self._cells.writer_threads is not None:
            self._cells.writer_threads[granules] = threads
        if self._cells.writer_times is not None:
            self._cells.writer_times[granules] = self._now

    def read(self) -> None:
        self.look()
        cached = "nc" in self._site.instruction.modifiers
        for granules in self._granules():
            writers = self._cells.writers[granules]
            if cached and writers.any():
                lane = self._lane(int(np.argmax(writers != 0)))
                where = self._site.instruction, "race", STORED_AND_CACHED, machine.LAUNCH_FAILURE
                raise self._f.fault(*where, lane)
            clash = self._unordered(granules, writers, self._others(writers))
            if clash.any():
                raise self._fault(int(np.argmax(clash)), granules, writers, "wrote")
            self._stop_at_sums(granules)
            if self._cells.readers is not None:
                self._note_readers(self._cells.readers, granules)

    def post(self) -> None:
        """An ordered store; it matters whether it is loose."""
        for granules in self._granules():
            self._flag(granules)
            if self._site.loose and self._cells.posted is not None:
                self._cells.posted[granules] = self._mine
                self._note_writer(granules, self._threads)

    def look(self) -> None:
        """A loose load: at a flag, or for data that another block may have stored loosely. Or
        another ordered one, at a flag."""
        for granules in self._granules():
            if self._site.ordered:
                self._look_at_updates(granules)
                if not self._site.loose:
                    continue
            posted, flags = self._cells.posted, self._cells.flags
            if posted is None or flags is None:
                return
            if self._site.decides:
                flags[granules] = True
                continue
            earlier = posted[granules]
            self._stop(granules, earlier, self._others(earlier) & ~flags[granules])

    def _flag(self, granules: NDArray[np.int64]) -> None:
        """Notes that what is updated there is not only data: somebody looks at the result."""
        if self._cells.adders is not None:
            self._cells.adders[granules] = FLAG

    def _look_at_updates(self, granules: NDArray[np.int64]) -> None:
        """An ordered read: at a flag, or for data, which needs the order of a plain load."""
        if self._site.reads_data:
            self._stop_at_sums(granules)
        else:
            self._flag(granules)

    def _add(self, granules: NDArray[np.int64]) -> None:
        """Notes updates; of several the first counts that nothing has ordered before later
        ones."""
        adders, threads, times = self._cells.adders, *self._when("updated")
        if adders is None or threads is None or times is None:
            return
        known = adders[granules]
        held = self._unordered(granules, known, self._others(known), "updated")
        at = np.flatnonzero(~held & (known != FLAG))[::-1]
        adders[granules[at]], threads[granules[at]] = self._mine[at], self._threads[at]
        times[granules[at]] = self._now

    def _stop_at_sums(self, granules: NDArray[np.int64], among: Mask | None = None) -> None:
        if self._cells.adders is not None:
            known = self._cells.adders[granules]
            clash = self._others(known) & (known != FLAG)
            self._stop(granules, known, clash if among is None else clash & among, "updated")

    def _note_readers(self, readers: Words, granules: NDArray[np.int64]) -> None:
        known = readers[granules]
        threads = self._cells.reader_threads
        if threads is not None:
            threads[granules[known == 0]] = self._threads[known == 0]
        if self._cells.reader_times is not None:
            self._cells.reader_times[granules[known == 0]] = self._now
        readers[granules] = np.where(
            known == 0, self._mine, np.where(self._others(known), known | _MANY, known)
        )
        last = readers[granules]
        lost = self._others(last)
        if lost.any():
            readers[granules[lost]] = last[lost] | _MANY
        self._note_late_readers(granules, lost)

    def _note_late_readers(self, granules: NDArray[np.int64], late: Mask) -> None:
        """Notes the readers whose block was not the first that read."""
        cells, (threads, times) = self._cells.late_readers, self._when("read late")
        if cells is not None and threads is not None and times is not None and late.any():
            at = granules[late]
            cells[at], threads[at], times[at] = self._mine[late], self._threads[late], self._now

    def write(self, before: Array, values: Array, after: Array) -> None:
        """What the places held, what each lane stored, and what they hold now."""
        kind = self._site.float_type
        changed, overwritten = differ(before, values, kind), differ(after, values, kind)
        writers = self._cells.writers
        for granules in self._granules():
            earlier = writers[granules]
            writers[granules] = self._mine
            last = writers[granules]
            several = (earlier & _MANY) != 0
            self._stop(granules, earlier, (self._others(earlier) | several) & changed)
            self._stop_at_sums(granules, changed)
            at_once = self._others(last) & overwritten
            if at_once.any():
                self._note_writer(granules, self._threads)
            self._stop(granules, last, at_once)
            if self._cells.readers is not None:
                readers = self._cells.readers[granules]
                many = (readers & _MANY) != 0
                self._stop(granules, readers, (self._others(readers) | many) & changed, "read")
            if self._cells.late_readers is not None:
                late = self._cells.late_readers[granules]
                self._stop(granules, late, self._others(late) & changed, "read late")
            # Of what is never read only other values matter: such cells are always taken.
            taken = changed if self._cells.readers is not None else changed | (earlier == 0)
            writers[granules] = earlier
            writers[granules[taken]] = self._mine[taken]
            self._note_writer(granules[taken], self._threads[taken])
            if not changed.all():
                self._some(~changed)._note_alike(granules[~changed])

    def _some(self, among: Mask) -> Touch:
        """The access of some lanes only, as far as cells are concerned."""
        some = copy(self)
        some._block, some._mine = self._block[among], self._mine[among]
        some._threads = self._threads[among]
        return some

    def _note_alike(self, granules: NDArray[np.int64]) -> None:
        """Stores of what is there already count as reads. Where nothing is read, and nothing orders
        blocks, it is enough that several wrote the same."""
        if self._cells.readers is not None:
            self._note_readers(self._cells.readers, granules)
            return
        writers = self._cells.writers
        others = self._others(writers[granules])
        writers[granules[others]] |= _MANY

    def update(self) -> None:
        """An atomic operation; one whose scope is the block is atomic to no other block."""
        alone = "cta" in self._site.instruction.modifiers
        for granules in self._granules():
            writers = self._cells.writers[granules]
            self._stop(granules, writers, self._others(writers))
            if not self._site.sums:
                self._look_at_updates(granules)
            elif not alone:
                self._add(granules)
            if alone:
                self._cells.writers[granules] = self._mine
                self._note_writer(granules, self._threads)
                last = self._cells.writers[granules]
                self._stop(granules, last, self._others(last))

    def _stop(
        self, granules: NDArray[np.int64], cells: Words, clash: Mask, did: Did = "wrote"
    ) -> None:
        clash = self._unordered(granules, cells, clash, did)
        if clash.any():
            raise self._fault(int(np.argmax(clash)), granules, cells, did)

    def _fault(self, at: int, granules: NDArray[np.int64], cells: Words, did: Did) -> Exception:
        threads, _ = self._when(did)
        assert threads is not None
        message = self._block_races.message(
            self._site.verb,
            self._site.size,
            int(self._addresses[at]),
            int(cells[at]),
            int(threads[granules[at]]),
            "read" if did == "read late" else did,
        )
        instruction, lane = self._site.instruction, self._lane(at)
        return self._f.fault(instruction, "race", message, machine.LAUNCH_FAILURE, lane)

    def _lane(self, at: int) -> int:
        """The lane in the batch of one of these accesses."""
        if self._uniform:
            row = int(np.flatnonzero(self._active.mask.any(axis=1))[at])
            return row * self._f.shape[1] + int(np.argmax(self._active.mask[row]))
        return lane_number(self._active, at if self._chosen is None else int(self._chosen[at]))


def touch(
    f: Frame, site: Site, region: BufferRegion, addresses: Array, active: Active
) -> Touch | None:
    """Returns the access as the check sees it; None if the check is off."""
    if f.block_races is None or region.buffer.cells is None:
        return None
    return Touch(f, f.block_races, site, region, addresses, active)
