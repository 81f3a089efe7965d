"""Which of several timed candidates is the best: the fastest; where memory counts, of those that
are about as fast the one that needs least."""

from __future__ import annotations

from collections.abc import Sequence

from astra_chat.tools.types import Timed

EQUAL = 1.01
"""Where memory counts, two speeds that differ by less than this factor are equal."""


def best_of(timed: Sequence[Timed]) -> int | None:
    """Returns the place of the best, the first of equals; None of none."""
    if not timed:
        return None
    places = range(len(timed))
    fastest = max(places, key=lambda i: timed[i].ratio)
    shares = [one.memory_share for one in timed]
    if shares[fastest] is None:
        return fastest
    least = timed[fastest].ratio / EQUAL
    equal = [(share, -timed[i].ratio, i) for i, share in enumerate(shares) if share is not None]
    return min(one for one in equal if -one[1] > least)[2]
