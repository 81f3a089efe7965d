"""Races between thread blocks on global memory.

A race: two blocks access the same bytes, one of them stores another value, and nothing orders them.
A store of what is there already counts as a read.

For each granule of a buffer that the kernel may store to, a cell records which block wrote it and,
where the kernel loads too, or may order its blocks, which block read it. Two accesses are ordered
once the first has been published, by an atomic (or volatile) operation after a fence, and the
second comes after one that looked there (block_order.py): that covers the last block of a
reduction, locks and flags. Reads of the first block are ordered by a flag that it stores, with or
without a fence: that covers tiles that are compacted in place. This accepts more than the memory
model does: a missed race is better than a false positive.

Volatile and relaxed accesses of a kernel that looks in loops count where they carry data: a load
whose value decides nothing, of what another block stored so, needs the same order. So does a read,
by an atomic too, of what others updated by atomics, if its value decides nothing (data_reads.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.pointer_reach import ANYWHERE, Origin, Reach
from astra_vgpu.memory.block_order import BlockOrder
from astra_vgpu.memory.buffers import Buffer, Memory
from astra_vgpu.ptx.syntax import Instruction
from astra_vgpu.types import Dim3, Launch

STORED_AND_CACHED = (
    "read through the non-coherent cache (ld.global.nc) of bytes that the same launch stored: it"
    " may hold what was there before"
)
MANY = 1 << 31
"""Bit of a reader's cell: several blocks read; of a writer's: several wrote the same value."""
FLAG = MANY
"""Value of a cell of updates where somebody looks at the result."""
_BITS = 31
DID = ("read", "wrote", "updated")
"""What the earlier access did; the C engine knows them by number."""
COARSEST_BITS = 5
COARSE_CELLS = 1 << 20
"""Coarse cells are at most 32 bytes wide, and as fine as fewer of them allow."""
SWITCH = "ASTRA_BLOCK_RACES"
"""This variable of the environment, set to "off", leaves the check out."""
NDThreads = NDArray[np.uint16]
NDWords = NDArray[np.uint32]


@dataclass
class Cells:
    """Which blocks touched each granule of one buffer. A cell is 0, or the block + 1 above the
    number of the site."""

    writers: NDWords
    readers: NDWords | None
    writer_threads: NDThreads | None
    """Thread of the block, for each cell of `writers`; None for coarse cells."""
    reader_threads: NDThreads | None
    """Thread of the block, for each cell of `readers`; None for coarse cells."""
    bits: int
    """Power of 2 that gives the bytes of a cell."""
    posted: NDWords | None = None
    """Cells like `writers`, for loose stores (ordered_accesses.is_loose)."""
    flags: NDArray[np.bool_] | None = None
    """Where a loose load looked for a value that decides something."""
    writer_times: NDWords | None = None
    """Time of the access in each cell of `writers`, by the clock of block_order; only for fine
    cells of a kernel whose blocks may be ordered."""
    reader_times: NDWords | None = None
    """Time of the access in each cell of `readers`, by the clock of block_order."""
    late_readers: NDWords | None = None
    """Cells like `readers`: the last of other blocks than the first that read; like the times."""
    late_reader_threads: NDThreads | None = None
    """Thread of the block, for each cell of `late_readers`."""
    late_reader_times: NDWords | None = None
    """Time of the access in each cell of `late_readers`, by the clock of block_order."""
    adders: NDWords | None = None
    """Cells like `writers`, for atomic updates whose result nothing reads
    (ordered_accesses.unread_updates): the first that is not ordered before what came later; FLAG
    where somebody looks at the result."""
    adder_threads: NDThreads | None = None
    """Thread of the block, for each cell of `adders`."""
    adder_times: NDWords | None = None
    """Time of the update in each cell of `adders`, by the clock of block_order."""

    def into(self, coarse: Cells, address: int) -> None:
        """Adds what these cells hold to coarser ones of the same buffer."""
        step = coarse.bits - self.bits
        first = address >> self.bits
        for mine, theirs in ((self.writers, coarse.writers), (self.readers, coarse.readers)):
            if mine is not None and theirs is not None:
                taken = np.flatnonzero(mine)
                theirs[((taken + first) >> step) - (address >> coarse.bits)] = mine[taken]


class BlockRaces:
    """The cells of one launch: of all its parts, whichever engine runs them."""

    def __init__(
        self, reach: Reach, launch: Launch, memory: Memory, stored: set[int], loaded: set[int]
    ) -> None:
        """stored, loaded: addresses of the buffers that the kernel may reach so."""
        self.reach, self._launch, self._memory = reach, launch, memory
        block_bits = launch.grid.count.bit_length()
        fits = len(reach.sites).bit_length() + block_bits <= _BITS
        self.site_bits = len(reach.sites).bit_length() if fits else 0
        self.granule_bits = reach.granule.bit_length() - 1
        self._stored, self._loaded = stored, loaded
        self._fine: dict[int, Cells] = {}
        self._coarse: dict[int, Cells] = {}
        self.order = BlockOrder(launch) if reach.synchronises else None
        self.used = False
        """Whether a part of the launch has run."""

    def number(self, instruction: Instruction) -> int:
        """Number of a site, as cells hold it; 0 for none."""
        return self.reach.number(instruction) if self.site_bits else 0

    def attach(self) -> None:
        """Puts fine cells at the buffers, until `detach`."""
        cells = self.fine()
        for buffer in self._memory.buffers:
            buffer.cells = cells.get(buffer.address)

    def restart(self) -> None:
        """All blocks have met: what they did until now is ordered before what comes."""
        for cells in (*self._fine.values(), *self._coarse.values()):
            cells.writers[:] = 0
            later = cells.late_readers, cells.posted, cells.flags, cells.adders
            for others in (cells.readers, *later):
                if others is not None:
                    others[:] = 0
        if self.order is not None:
            self.order.restart()

    def detach(self) -> None:
        for buffer in self._memory.buffers:
            buffer.cells = None

    def fine(self) -> Mapping[int, Cells]:
        """Returns cells as fine as the narrowest access, by address of the buffer."""
        for buffer in self._watched():
            if buffer.address not in self._fine:
                cells = self._cells(buffer, self.granule_bits)
                cells.writer_threads = np.zeros(cells.writers.size, np.uint16)
                if cells.readers is not None:
                    cells.reader_threads = np.zeros(cells.readers.size, np.uint16)
                if self.order is not None:
                    cells.writer_times = np.zeros(cells.writers.size, np.uint32)
                    if cells.readers is not None:
                        cells.reader_times = np.zeros(cells.readers.size, np.uint32)
                        cells.late_readers = np.zeros(cells.readers.size, np.uint32)
                        cells.late_reader_times = np.zeros(cells.readers.size, np.uint32)
                        cells.late_reader_threads = np.zeros(cells.readers.size, np.uint16)
                    cells.adders = np.zeros(cells.writers.size, np.uint32)
                    cells.adder_threads = np.zeros(cells.writers.size, np.uint16)
                    cells.adder_times = np.zeros(cells.writers.size, np.uint32)
                if self.reach.loose:
                    cells.posted = np.zeros(cells.writers.size, np.uint32)
                    cells.flags = np.zeros(cells.writers.size, np.bool_)
                self._fine[buffer.address] = cells
        return self._fine

    def coarse(self) -> Mapping[int, Cells]:
        """Cells that cost little: blocks that meet there may have met. What fine ones hold is
        there too."""
        for buffer in self._watched():
            if buffer.address not in self._coarse:
                bits = self.granule_bits
                while bits < COARSEST_BITS and buffer.nbytes >> bits > COARSE_CELLS:
                    bits += 1
                self._coarse[buffer.address] = self._cells(buffer, bits)
            if buffer.address in self._fine:
                self._fine[buffer.address].into(self._coarse[buffer.address], buffer.address)
        return self._coarse

    def _watched(self) -> list[Buffer]:
        return [
            buffer
            for buffer in self._memory.buffers
            if buffer.address in self._stored and buffer.allocated is None
        ]

    def _cells(self, buffer: Buffer, bits: int) -> Cells:
        last = buffer.address + max(buffer.nbytes, 1) - 1
        count = (last >> bits) - (buffer.address >> bits) + 1
        loads = buffer.address in self._loaded or self.order is not None
        readers = np.zeros(count, np.uint32) if loads else None
        return Cells(np.zeros(count, np.uint32), readers, None, None, bits)

    def snapshot(self) -> Callable[[], None]:
        """What gives the kernel back the input that it stores over, and what earlier parts of the
        launch stored."""
        kept = [
            (buffer.data, buffer.data.copy())
            for buffer in self._watched()
            if self.used or buffer.address in self._loaded
        ]

        def undo() -> None:
            for data, content in kept:
                data[:] = content

        return undo

    def message(self, does: str, size: int, address: int, cell: int, thread: int, did: str) -> str:
        """Text of a race. cell, thread: of the earlier access, which `did` that."""
        many = bool(cell & MANY)
        block = _coordinates(((cell & ~MANY) >> self.site_bits) - 1, self._launch.grid)
        number = cell & ((1 << self.site_bits) - 1)
        where = (
            f"block {block}, thread {_coordinates(thread, self._launch.block)} of the same kernel"
        )
        if number:
            site = self.reach.sites[number - 1]
            did = (
                "wrote" if did == "read" and site.family == "st" else did
            )  # what was there already
            where = f"{site.source or f'PTX line {site.line}'}, {where}"
        return (
            f"race between blocks on global memory: {does}s {size} bytes at"
            f" {self._memory.place(address)} that {'several blocks' if many else 'another block'}"
            f" {did}, and no fence and atomic operation order the two; the other access: {where}"
        )


def block_races_of(
    reach: Reach, launch: Launch, memory: Memory, symbols: Mapping[str, int]
) -> BlockRaces | None:
    """Returns the check for a launch; None if there is nothing to check, or the check is off."""
    if not reach.granule or launch.grid.count < 2 or os.environ.get(SWITCH) == "off":
        return None
    if launch.grid.count.bit_length() > _BITS:
        return None
    stored = buffers_of(reach.stored, launch, memory, symbols)
    loaded = buffers_of(reach.loaded, launch, memory, symbols)
    return BlockRaces(reach, launch, memory, stored, loaded) if stored else None


def watched_buffers(
    reach: Reach, launch: Launch, memory: Memory, symbols: Mapping[str, int]
) -> list[Buffer]:
    """The buffers that a launch may store to."""
    stored = buffers_of(reach.stored | reach.stored_in_bulk, launch, memory, symbols)
    return [buffer for buffer in memory.buffers if buffer.address in stored]


def buffers_of(
    origins: frozenset[Origin], launch: Launch, memory: Memory, symbols: Mapping[str, int]
) -> set[int]:
    """Addresses of the buffers that the origins lead to."""
    if ANYWHERE in origins:
        return {buffer.address for buffer in memory.buffers}
    places = (
        symbols.get(origin, 0)
        if isinstance(origin, str)
        else int.from_bytes(launch.params[origin : origin + 8], "little")
        for origin in origins
    )
    return {buffer.address for place in places if (buffer := memory.find(place)) is not None}


@contextmanager
def watched(block_races: BlockRaces | None) -> Iterator[None]:
    """Keeps the cells at the buffers while the context lasts."""
    if block_races is None:
        yield
        return
    block_races.attach()
    try:
        yield
    finally:
        block_races.detach()
        block_races.used = True


def _coordinates(linear: int, extent: Dim3) -> tuple[int, int, int]:
    rest, x = divmod(linear, extent.x)
    z, y = divmod(rest, extent.y)
    return x, y, z
