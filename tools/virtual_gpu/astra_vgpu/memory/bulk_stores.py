"""Bulk copies to global memory that nobody has waited for: what else touches their bytes is wrong.

The bytes are there for others once the thread that began the copy has waited for its group:
cp.async.bulk.wait_group, without `.read`, which waits for the reads of shared memory alone. A
thread that ends without such a wait leaves them unfinished until the launch has ended.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.lowering.pointer_reach import Reach
from astra_vgpu.memory.block_races import buffers_of
from astra_vgpu.memory.buffers import Memory
from astra_vgpu.types import Launch

PIECE_BITS = 4
"""Bulk copies begin and end at multiples of so many bytes, as a power of 2."""
FINISHED, COPIED, REDUCED = range(3)
"""What a piece of a buffer waits for: the C engine knows them by number."""
MOST_BYTES = 1 << 32
"""Larger buffers are not watched."""
NDPieces = NDArray[np.uint8]


def unfinished_stores(
    reach: Reach, launch: Launch, memory: Memory, symbols: Mapping[str, int]
) -> dict[int, NDPieces]:
    """Returns what each 16 bytes of the buffers that a launch copies to wait for, by the address of
    the buffer; to be shared by all parts of the launch."""
    if not reach.stored_in_bulk:
        return {}
    addresses = buffers_of(reach.stored_in_bulk, launch, memory, symbols)
    return {
        buffer.address: np.zeros(
            piece(buffer.address, buffer.address + max(buffer.nbytes, 1) - 1) + 1, np.uint8
        )
        for buffer in memory.buffers
        if buffer.address in addresses and buffer.nbytes <= MOST_BYTES
    }


def attach(memory: Memory, unfinished: Mapping[int, NDPieces]) -> None:
    """Gives the buffers their pieces; an empty mapping takes them away."""
    for buffer in memory.buffers:
        buffer.unfinished = unfinished.get(buffer.address)


def piece(buffer: int, address: int) -> int:
    """Number of the piece that holds an address of the buffer at another."""
    return (address >> PIECE_BITS) - (buffer >> PIECE_BITS)


def unfinished_message(verb: str, size: int, place: str) -> str:
    """verb: read or write; place: buffer and offset."""
    return (
        f"{verb} of {size} bytes at {place} that a bulk copy of this launch may still be writing:"
        " the thread that began it has not waited by cp.async.bulk.wait_group; with .read, that"
        " waits only until shared memory is read"
    )
