"""Poison: the 16-bit patterns that outputs, guard bands and padding hold before a call."""

from __future__ import annotations

import random


def left_there(turn: int, draws: random.Random) -> int:
    """What outputs, guards and paddings hold before a call: NaNs, every third time numbers.

    A kernel that takes a NaN as a sign that an element is not yet written would be correct in every
    call of ours and wrong in a server, where old results lie.
    """
    return nan_pattern(draws) if turn % 3 else old_results(draws)


def old_results(draws: random.Random) -> int:
    """A random 16-bit pattern that is 2 to 16 as half, and at least 2 and finite as bfloat16 and,
    repeated, as float."""
    return draws.choice((0, 0x8000)) | 0x4000 + draws.randrange(0xC00)


def nan_pattern(draws: random.Random) -> int:
    """A random 16-bit pattern that is a NaN as half and bfloat16, and repeated as float."""
    return draws.choice((0, 0x8000)) | 0x7F80 | draws.randrange(1, 0x80)
