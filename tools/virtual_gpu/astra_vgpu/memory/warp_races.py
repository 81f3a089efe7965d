"""Races on global memory between warps of one block, and between lanes of a warp: what both engines
share.

The rule is that of shared memory (numpy_engine/shared_memory_races.py): two threads of a block
access the same bytes, one of them stores another value, and nothing in between orders them. Only
buffers are watched that the launch both loads from and stores to: results in place, and scratch.
A store of what is there already counts as a load: nothing changes, unless it comes after another's.

Whatever orders warps on shared memory orders them here: barriers of the block, mbarriers,
__syncwarp() within a warp. So does a flag in global memory: an atomic or ordered operation of one
warp, and one of another that looks at the same place later.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.pointer_reach import Reach
from astra_vgpu.memory.block_races import SWITCH, buffers_of
from astra_vgpu.memory.buffers import Buffer, Memory
from astra_vgpu.ptx.syntax import Instruction
from astra_vgpu.types import Launch

MOST_GRANULES = 1 << 28
"""Larger buffers are not watched: their stamps would not fit into the host's memory."""
FLAG_PLACES, FLAG_PLACE_BITS = 64, 4
"""A block tells so many flags apart; those within so many bytes, as a power of 2, count as one."""
KIND = "race between threads of a block on global memory"
NDStamps = NDArray[np.uint64]
NDTimes = NDArray[np.uint32]


@dataclass
class Stamps:
    """Which threads touched each granule of a buffer last; the layout of a stamp is that of
    shared_memory_races.py, and no two blocks are ever in the same epoch."""

    writers: NDStamps
    readers: NDStamps
    adders: NDStamps | None = None
    """Threads whose atomic updates, with a result that nothing reads, touched each granule; like
    the times, only for kernels that have operations which order."""
    writer_times: NDTimes | None = None
    """Time of each stamp in `writers`, counted in operations that order."""
    reader_times: NDTimes | None = None
    """Time of each stamp in `readers`, counted in operations that order."""
    adder_times: NDTimes | None = None
    """Time of each stamp in `adders`, counted in operations that order."""

    def clear(self) -> None:
        for array in (self.writers, self.readers, self.adders):
            if array is not None:
                array[:] = 0


class WatchedBuffers:
    """The stamps of one launch, or of the part of it that one engine runs."""

    def __init__(self, reach: Reach, launch: Launch, buffers: list[Buffer]) -> None:
        self.reach, self._launch = reach, launch
        self.granule_bits = reach.granule.bit_length() - 1
        self.orders = reach.synchronises
        self.epochs = 0
        """So many are taken: each block and barrier has its own."""
        self.by_address = {buffer.address: self._stamps(buffer) for buffer in buffers}

    def _stamps(self, buffer: Buffer) -> Stamps:
        count = granules(buffer, self.granule_bits)
        stamps = Stamps(np.zeros(count, np.uint64), np.zeros(count, np.uint64))
        if self.orders:
            stamps.adders = np.zeros(count, np.uint64)
            stamps.writer_times = np.zeros(count, np.uint32)
            stamps.reader_times = np.zeros(count, np.uint32)
            stamps.adder_times = np.zeros(count, np.uint32)
        return stamps

    def clear(self) -> None:
        for stamps in self.by_address.values():
            stamps.clear()

    def site(self, number: int) -> Instruction | None:
        """The instruction of a stamp's number; None for 0, which stands for an atomic operation."""
        return self.reach.sites[number - 1] if 0 < number <= len(self.reach.sites) else None


def granules(buffer: Buffer, bits: int) -> int:
    last = buffer.address + max(buffer.nbytes, 1) - 1
    return (last >> bits) - (buffer.address >> bits) + 1


def watched_buffers(
    reach: Reach, launch: Launch, memory: Memory, symbols: Mapping[str, int]
) -> WatchedBuffers | None:
    """None if there is nothing to check, or the checks of global memory are off."""
    if not reach.granule or launch.block.count < 2 or os.environ.get(SWITCH) == "off":
        return None
    both = buffers_of(reach.stored, launch, memory, symbols)
    both &= buffers_of(reach.loaded, launch, memory, symbols)
    bits = reach.granule.bit_length() - 1
    watched = [
        buffer
        for buffer in memory.buffers
        if buffer.address in both
        and buffer.allocated is None
        and buffer.address != launch.meeting_place
        and granules(buffer, bits) <= MOST_GRANULES
    ]
    return WatchedBuffers(reach, launch, watched) if watched else None
