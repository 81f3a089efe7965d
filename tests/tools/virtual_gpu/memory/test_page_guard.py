"""Device buffers of a whole program: pages apart from each other."""

from __future__ import annotations

import mmap
from itertools import pairwise
from unittest.mock import MagicMock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astra_chat.tools.virtual_gpu.memory.page_guard import GuardedMemory


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
