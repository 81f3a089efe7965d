"""Bulk copies that read what ordinary stores of the same launch wrote to global memory.

Copies go by another path to memory than loads and stores do (the async proxy of the PTX ISA). What
a warp stored is there for a copy once fence.proxy.async has run, for global memory or for all: in
that warp after the store, or in another one of its block or of the copying block, after a barrier,
an mbarrier, an atomic or a volatile access by which it may have learned of the store. What exactly
it learned there is not looked at, and the lanes of a warp count as one: this accepts more than the
memory model does. What other blocks store counts once the copying block has looked at a flag since:
a copy that begins or ends beside the bytes that its block needs is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.pointer_reach import Reach
from astra_vgpu.memory.block_order import ROWS
from astra_vgpu.memory.block_races import buffers_of
from astra_vgpu.memory.buffers import Buffer, Memory
from astra_vgpu.memory.bulk_stores import PIECE_BITS, piece
from astra_vgpu.types import Launch

MOST_BYTES = 1 << 30
"""Larger buffers are not watched."""
Rows = NDArray[np.int64]
Warps = NDArray[np.bool_]
Times = NDArray[np.uint32]


@dataclass(frozen=True)
class Pieces:
    """The last store to each 16 bytes of a buffer."""

    by: Times
    """Row of its block and its warp, as one number, + 1; 0: there was none."""
    when: Times


class ProxyFences:
    """Stores and fences of one launch, in all its parts on the NumPy engine."""

    def __init__(self, launch: Launch, watched: Mapping[int, int]) -> None:
        """watched: bytes of each buffer, by address."""
        self._warps = launch.block.warps
        self._rows = min(launch.grid.count, ROWS)
        self._own: Times = np.zeros((self._rows, self._warps), np.uint32)
        """When each warp last ran a fence."""
        self._learned: Times = np.zeros_like(self._own)
        """When each warp last met another one, or looked at what another one may have stored."""
        self._seen: Times = np.zeros(self._rows, np.uint32)
        """Until when what each block may have learned lies behind a fence of one of its warps."""
        self._looked: Times = np.zeros(self._rows, np.uint32)
        """When each block last looked at what another one may have stored."""
        self._clock = np.uint32(1)
        self._pieces = {
            address: Pieces(*np.zeros((2, piece(address, address + max(nbytes, 1) - 1) + 1), "u4"))
            for address, nbytes in watched.items()
        }

    def watches(self, buffer: Buffer) -> bool:
        return buffer.address in self._pieces

    def store(
        self, buffer: Buffer, blocks: Rows, warps: Rows, addresses: NDArray[np.uint64], size: int
    ) -> None:
        """Notes stores of `size` bytes each, which are aligned to it, by these warps."""
        pieces = self._pieces[buffer.address]
        first = (addresses >> np.uint64(PIECE_BITS)).astype(np.int64)
        first -= buffer.address >> PIECE_BITS
        for part in range(max(size >> PIECE_BITS, 1)):
            pieces.by[first + part] = blocks % self._rows * self._warps + warps + 1
            pieces.when[first + part] = self._clock
        self._clock += np.uint32(1)

    def fence(self, blocks: Rows, active: Warps) -> None:
        """Notes fence.proxy.async of these warps. active: [blocks, warps]."""
        rows = blocks % self._rows
        self._own[rows] = np.where(active, self._clock, self._own[rows])
        seen = np.where(active, self._learned[rows], np.uint32(0)).max(axis=1)
        np.maximum.at(self._seen, rows, seen)
        self._clock += np.uint32(1)

    def learn(self, blocks: Rows, active: Warps, *, of_blocks: bool) -> None:
        """Notes that these warps met others of their block, or, of_blocks, looked at a flag."""
        rows = blocks % self._rows
        self._learned[rows] = np.where(active, self._clock, self._learned[rows])
        if of_blocks:
            self._looked[rows] = self._clock
        self._clock += np.uint32(1)

    def unfenced(self, buffer: Buffer, block: int, address: int, nbytes: int) -> int | None:
        """Returns the offset in the buffer of the first bytes that a copy of the block reads
        without a fence; None if there is none."""
        if buffer.address not in self._pieces:
            return None
        first, row = piece(buffer.address, address), block % self._rows
        span = slice(first, first + (nbytes >> PIECE_BITS))
        pieces = self._pieces[buffer.address]
        by, when = pieces.by[span].astype(np.int64) - 1, pieces.when[span]
        stored = by >= 0
        if not stored.any():
            return None
        rows, warps = np.divmod(np.maximum(by, 0), self._warps)
        fenced = when <= np.maximum(self._own[rows, warps], self._seen[rows])
        fenced |= when <= self._seen[row]
        known = (rows == row) | (when <= self._looked[row])
        late = stored & known & ~fenced
        if not late.any():
            return None
        return (int(np.argmax(late)) + first << PIECE_BITS) - buffer.address % (1 << PIECE_BITS)


def proxy_fences_of(
    reach: Reach, launch: Launch, memory: Memory, symbols: Mapping[str, int]
) -> ProxyFences | None:
    """Returns the check for a launch; None where no bulk copy can read what it stores."""
    if not reach.loaded_in_bulk or not reach.stored:
        return None
    both = buffers_of(reach.stored, launch, memory, symbols)
    both &= buffers_of(reach.loaded_in_bulk, launch, memory, symbols)
    watched = {
        buffer.address: buffer.nbytes
        for buffer in memory.buffers
        if buffer.address in both and buffer.nbytes <= MOST_BYTES
    }
    return ProxyFences(launch, watched) if watched else None


def not_fenced_message(size: int, place: str) -> str:
    """size: bytes of the copy; place: buffer and offset of the first that lack a fence."""
    return (
        f"a bulk copy of {size} bytes reads, at {place}, what a thread of the same launch stored,"
        " with no fence.proxy.async for global memory between the store and the copy"
    )
