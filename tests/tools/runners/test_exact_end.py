"""Memory ends where its allocation does, whatever an allocator rounds addresses to."""

from __future__ import annotations

import pytest

from astra_chat.tools.runners.cuda_once import placed_at_end


@pytest.mark.parametrize("granule", [128, 256, 512, 1024, 2**21])
@pytest.mark.parametrize("size", [2, 96, 288, 1000, 4096])
@pytest.mark.parametrize("shift", [0, 2, 48, 512])
def test_an_allocation_ends_with_what_lies_in_it(granule: int, size: int, shift: int) -> None:
    for first in range(0, 1024, granule):
        ends, free = dict[int, int](), first

        def allocate(count: int) -> int:
            nonlocal free
            start, free = free, free + -(-count // granule) * granule
            ends[start] = start + count  # noqa: B023
            return start

        address = placed_at_end(allocate, 2048, size, shift, 1024)
        assert address % 1024 == shift
        assert address + size in ends.values()
        base = max(start for start in ends if start <= address)
        assert address - base >= 2048
