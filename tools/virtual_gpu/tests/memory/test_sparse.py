"""Memory that is larger than the machine's."""

from __future__ import annotations

import pytest

from astra_vgpu.memory.buffers import Memory
from astra_vgpu.memory.sparse import SPARSE_BYTES, zeroed


@pytest.mark.parametrize("nbytes", [0, 5, 2**37])
def test_zeros_that_may_be_written(nbytes: int) -> None:
    zeros = zeroed(nbytes)
    assert zeros.shape == (nbytes,) and not zeros[-9:].any()
    zeros[-1:] = 7
    assert zeros[-1:].sum() == 7 * min(nbytes, 1)


def test_more_than_there_are_addresses_for() -> None:
    with pytest.raises(MemoryError):
        zeroed(2**60)


def test_stores_to_a_buffer_larger_than_the_memory_are_noted() -> None:
    memory = Memory()
    memory.track_writes(True)
    data = zeroed(8 * SPARSE_BYTES)
    buffer = memory.find(memory.add(data, "x"))
    assert buffer is not None and buffer.written is not None
    buffer.mark_span(data.size - 4, 4)
    assert buffer.written[-8:].tolist() == [False] * 4 + [True] * 4
