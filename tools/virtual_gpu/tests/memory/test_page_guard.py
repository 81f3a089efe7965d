"""Device buffers of a whole program: pages apart from each other."""

from __future__ import annotations

import mmap
from itertools import pairwise
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astra_vgpu.memory.page_guard import GuardedMemory, MappingsExhausted


def test_buffers_side_by_side_take_few_mappings() -> None:
    """Linux gives a process 65,530 mappings: closed buffers take none of their own."""
    memory = GuardedMemory(MagicMock())
    held = [memory.allocate(100, "buffer")]
    before = _mappings()
    held += [memory.allocate(100, "buffer") for _ in range(200)]
    assert _mappings() - before < 20
    with memory:
        assert _mappings() - before < 2 * 200 + 20
    for array in held[:100]:
        memory.release(int(array.ctypes.data))
    assert _mappings() - before < 20


def test_a_machine_without_mappings_is_told_in_a_line() -> None:
    memory = GuardedMemory(MagicMock())
    memory.allocate(100, "buffer")
    address = next(iter(memory._maps))
    # A range that ends before it begins is refused at once. One that is merely too long would first
    # change whatever lies behind the buffer: that could end this process.
    memory._maps[address] = memory._maps[address][0], 2**64 - mmap.PAGESIZE
    with pytest.raises(MappingsExhausted, match="device memory in 1 buffers at once"):
        memory.open(True)


def _mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


@given(st.lists(st.integers(1, 40 * mmap.PAGESIZE), min_size=2, max_size=12))
def test_an_index_past_a_buffer_does_not_meet_its_neighbour(sizes: list[int]) -> None:
    memory = GuardedMemory(MagicMock())
    with memory:
        buffers = [memory.allocate(nbytes, "buffer") for nbytes in sizes]
        for number, array in enumerate(buffers):
            array[:] = number + 1
        assert all(np.all(array == number + 1) for number, array in enumerate(buffers))
    places = sorted((int(array.ctypes.data), len(array)) for array in buffers)
    for (start, nbytes), (following, _) in pairwise(places):
        assert following - start >= 2 * nbytes
