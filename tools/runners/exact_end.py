"""Device memory whose end is an allocation's: a tool then sees what lies beyond it."""

from __future__ import annotations

import random
from collections.abc import Callable

MAX_TRIES = 64
"""Allocations until one lies so that its end is the argument's."""
STEP, MOST_STEPS = 128, 16
"""What lies between two tries, in bytes: up to so many steps. An allocator may round by 128, 256 or
512; by a fixed rule for what lies between, tries would miss for ever by one of them."""


def placed_at_end(
    allocate: Callable[[int], int], lead: int, size: int, shift: int, alignment: int
) -> int:
    """Allocates until some bytes lie as they have to; what was allocated before stays.

    Args:
        allocate: gives the address of so many bytes of new memory.
        lead: bytes that lie before at least, a multiple of the alignment.
        size: their number.
        shift: bytes from a multiple of the alignment to the first of them.

    Returns:
        The address of the first. They end where their allocation does, or, where no try is met, up
        to `alignment` bytes before.
    """
    before, draws = lead + shift, random.Random(size)
    for _ in range(MAX_TRIES):
        start = allocate(max(1, before + size)) + before
        if start % alignment == shift % alignment:
            return start
        before += (shift - start) % alignment
        allocate(1 + STEP * draws.randrange(MOST_STEPS))
    start = allocate(before + size + alignment) + before
    return start + (shift - start) % alignment
