"""The check for races between blocks on arrays of lanes; the rules are in memory/block_races.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.memory.block_races import (
    ACQUIRED,
    FENCED,
    FLAGGED,
    MANY,
    PUBLISHED,
    STORED_AND_CACHED,
    BlockRaces,
)
from astra_chat.tools.virtual_gpu.numpy_engine import frame as machine
from astra_chat.tools.virtual_gpu.numpy_engine.address_spaces import (
    Region,
    Site,
    lane_number,
    select,
)
from astra_chat.tools.virtual_gpu.numpy_engine.dtypes import Array
from astra_chat.tools.virtual_gpu.numpy_engine.frame import Active, Frame
from astra_chat.tools.virtual_gpu.numpy_engine.shared_memory_races import differ
from astra_chat.tools.virtual_gpu.types import MEETING_BYTES

Mask = NDArray[np.bool_]
Words = NDArray[np.uint32]
_MANY = np.uint32(MANY)


def fence(f: Frame, active: Active) -> None:
    """For the whole GPU, of these lanes' blocks."""
    if f.block_races is not None and f.block_races.states.size:
        f.block_races.states[f.blocks[active.mask.any(axis=1)]] |= np.uint8(FENCED)


def synchronise(
    f: Frame, site: Site, addresses: Array, active: Active, *, flags: bool = False
) -> None:
    """An atomic or volatile operation of these lanes' blocks. addresses: of these lanes, or one;
    flags: it stores something for others to see."""
    if f.block_races is None or not f.block_races.states.size:
        return
    place = f.launch.meeting_place
    if place and place <= int(addresses.flat[0]) < place + MEETING_BYTES:
        return  # where the grid meets: that is seen once all are there (grid_sync.py)
    blocks = f.blocks[active.mask.any(axis=1)]
    states = f.block_races.states[blocks] | np.uint8(ACQUIRED | (FLAGGED if flags else 0))
    if site.releases:
        states |= np.uint8(FENCED)
    states[(states & np.uint8(FENCED)) != 0] |= np.uint8(PUBLISHED)
    f.block_races.states[blocks] = states


class Touch:
    """One plain access of some lanes to one buffer that is watched."""

    def __init__(
        self, f: Frame, block_races: BlockRaces, site: Site, region: Region, addresses: Array,
        active: Active,
    ) -> None:  # fmt: skip
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
        number = block_races.number(site.instruction)
        self._mine: Words = (self._block << self._shift) | np.uint32(number)

    def _granules(self) -> Iterator[NDArray[np.int64]]:
        bits = self._block_races.granule_bits
        first = self._buffer.address >> bits
        start = (self._addresses >> np.uint64(bits)).astype(np.int64) - first
        for part in range(max(self._site.size >> bits, 1)):
            yield start + part

    def _others(self, cells: Words) -> Mask:
        """Of another block."""
        return np.asarray((cells != 0) & (((cells & ~_MANY) >> self._shift) != self._block))

    def _unordered(self, cells: Words, clash: Mask, *, wrote: bool = True) -> Mask:
        states = self._block_races.states
        if not states.size or not clash.any():
            return clash
        first = np.maximum((cells & ~_MANY) >> self._shift, np.uint32(1)) - np.uint32(1)
        done = PUBLISHED if wrote else PUBLISHED | FLAGGED
        published = (states[first] & done) != 0
        acquired = (states[self._block - np.uint32(1)] & ACQUIRED) != 0
        return np.asarray(clash & ~(published & acquired))

    def read(self) -> None:
        self.look()
        cached = "nc" in self._site.instruction.modifiers
        for granules in self._granules():
            writers = self._cells.writers[granules]
            if cached and writers.any():
                lane = self._lane(int(np.argmax(writers != 0)))
                where = self._site.instruction, "race", STORED_AND_CACHED, machine.LAUNCH_FAILURE
                raise self._f.fault(*where, lane)
            clash = self._unordered(writers, self._others(writers))
            if clash.any():
                raise self._fault(int(np.argmax(clash)), granules, writers, wrote=True)
            if self._cells.readers is not None:
                self._note_readers(self._cells.readers, granules)

    def post(self) -> None:
        """A loose store."""
        for granules in self._granules():
            if self._cells.posted is not None and self._cells.writer_threads is not None:
                self._cells.posted[granules] = self._mine
                self._cells.writer_threads[granules] = self._threads

    def look(self) -> None:
        """A loose load: at a flag, or for data that another block may have stored loosely."""
        for granules in self._granules():
            posted, flags = self._cells.posted, self._cells.flags
            if posted is None or flags is None:
                return
            if self._site.decides:
                flags[granules] = True
                continue
            earlier = posted[granules]
            self._stop(granules, earlier, self._others(earlier) & ~flags[granules], wrote=True)

    def _note_readers(self, readers: Words, granules: NDArray[np.int64]) -> None:
        known = readers[granules]
        threads = self._cells.reader_threads
        if threads is not None:
            threads[granules[known == 0]] = self._threads[known == 0]
        readers[granules] = np.where(
            known == 0, self._mine, np.where(self._others(known), known | _MANY, known)
        )
        last = readers[granules]
        lost = self._others(last)
        if lost.any():
            readers[granules[lost]] = last[lost] | _MANY

    def write(self, before: Array, values: Array, after: Array) -> None:
        """What the places held, what each lane stored, and what they hold now."""
        kind = self._site.float_type
        changed, overwritten = differ(before, values, kind), differ(after, values, kind)
        writers = self._cells.writers
        for granules in self._granules():
            earlier = writers[granules]
            writers[granules] = self._mine
            last = writers[granules]
            self._stop(granules, earlier, self._others(earlier) & changed, wrote=True)
            at_once = self._others(last) & overwritten
            if at_once.any() and self._cells.writer_threads is not None:
                self._cells.writer_threads[granules] = self._threads
            self._stop(granules, last, at_once, wrote=True)
            if self._cells.readers is not None:
                readers = self._cells.readers[granules]
                many = (readers & _MANY) != 0
                self._stop(granules, readers, (self._others(readers) | many) & changed, wrote=False)
            # Of what is never read only other values matter: such cells are always taken.
            taken = changed if self._cells.readers is not None else changed | (earlier == 0)
            writers[granules] = earlier
            writers[granules[taken]] = self._mine[taken]
            if self._cells.writer_threads is not None:
                self._cells.writer_threads[granules[taken]] = self._threads[taken]

    def update(self) -> None:
        """An atomic operation; one whose scope is the block is atomic to no other block."""
        alone = "cta" in self._site.instruction.modifiers
        for granules in self._granules():
            writers = self._cells.writers[granules]
            self._stop(granules, writers, self._others(writers), wrote=True)
            if alone:
                self._cells.writers[granules] = self._mine
                if self._cells.writer_threads is not None:
                    self._cells.writer_threads[granules] = self._threads
                last = self._cells.writers[granules]
                self._stop(granules, last, self._others(last), wrote=True)

    def _stop(self, granules: NDArray[np.int64], cells: Words, clash: Mask, *, wrote: bool) -> None:
        clash = self._unordered(cells, clash, wrote=wrote)
        if clash.any():
            raise self._fault(int(np.argmax(clash)), granules, cells, wrote=wrote)

    def _fault(
        self, at: int, granules: NDArray[np.int64], cells: Words, *, wrote: bool
    ) -> Exception:
        threads = self._cells.writer_threads if wrote else self._cells.reader_threads
        assert threads is not None
        message = self._block_races.message(
            self._site.verb,
            self._site.size,
            int(self._addresses[at]),
            int(cells[at]),
            int(threads[granules[at]]),
            wrote,
        )
        instruction, lane = self._site.instruction, self._lane(at)
        return self._f.fault(instruction, "race", message, machine.LAUNCH_FAILURE, lane)

    def _lane(self, at: int) -> int:
        """The lane in the batch of one of these accesses."""
        if self._uniform:
            row = int(np.flatnonzero(self._active.mask.any(axis=1))[at])
            return row * self._f.shape[1] + int(np.argmax(self._active.mask[row]))
        return lane_number(self._active, at if self._chosen is None else int(self._chosen[at]))


def touch(f: Frame, site: Site, region: Region, addresses: Array, active: Active) -> Touch | None:
    """None if the check is off."""
    if f.block_races is None or region.buffer.cells is None:
        return None
    return Touch(f, f.block_races, site, region, addresses, active)


def claim_rows(f: Frame, site: Site, region: Region, active: Active) -> bool:
    """Before a store: notes it where each block stores to contiguous, untouched places at even
    distances, which is common and can be done fast. False otherwise."""
    block_races, cells = f.block_races, region.buffer.cells
    if block_races is None or cells is None:
        return True
    whole = active.dense and region.chosen is None and site.size == 1 << block_races.granule_bits
    if not whole or cells.readers is not None:
        return False
    index = region.index.reshape(f.shape)
    firsts = index[:, 0]
    step = int(firsts[1] - firsts[0]) if firsts.size > 1 else index.shape[1]
    if step < index.shape[1] or not (np.diff(index, axis=1) == 1).all():
        return False
    if firsts.size > 2 and not (np.diff(firsts) == step).all():
        return False
    skipped = -region.buffer.address % site.size > 0
    mine = _rows_of(cells.writers, int(firsts[0]) + skipped, step, f.shape)
    if mine.any():
        return False
    number = np.int64(block_races.number(site.instruction))
    stamps = ((f.blocks + 1) << np.int64(block_races.site_bits) | number).astype(np.uint32)
    mine[:] = stamps[:, None]
    if cells.writer_threads is not None:
        threads = _rows_of(cells.writer_threads, int(firsts[0]) + skipped, step, f.shape)
        threads[:] = np.arange(f.shape[1], dtype=np.uint16)
    return True


def _rows_of(items: Array, first: int, step: int, shape: tuple[int, int]) -> Array:
    """A view: row k begins at item first + k * step."""
    size = items.itemsize
    return np.lib.stride_tricks.as_strided(items[first:], shape, (step * size, size))
