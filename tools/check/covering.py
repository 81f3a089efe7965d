"""Covering arrays: rows in which every combination of the levels of any `strength` factors occurs.

Built row by row as in AETG (Cohen, Dalal, Fredman and Patton, "The AETG system: an approach to
testing based on combinatorial design", IEEE TSE 23(7), 1997), with constraints as costs: each row
begins with a combination that no row has yet, and the other factors, in a drawn order, take the
level that adds most new combinations. That this ends with few rows, and in time that grows with
the logarithm of the number of factors, is shown there; Lei and Tai's IPO (1998) is the alternative
that extends rows factor by factor.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

LARGEST = sys.float_info.max
OPEN = -1
"""In the place of a level: any will do."""
Row = tuple[int, ...]
"""The level of each factor, or OPEN."""
Levels = tuple[tuple[int, int], ...]
"""(factor, level) of some factors, ascending."""
Cost = Callable[[Row], float]
"""What the cheapest call costs that has the levels of a row; infinite where there is none. It does
not fall where a row gets more levels."""


@dataclass(frozen=True)
class CoveringArray:
    """Rows, and what they leave out."""

    rows: tuple[Row, ...]
    impossible: int
    """Combinations that no call has."""
    too_large: tuple[Levels, ...]
    """Combinations that only calls above the greatest cost have."""


def covering_array(
    sizes: Sequence[int],
    strength: int,
    rng: random.Random,
    cost: Cost = lambda _: 0.0,
    *,
    usual: float = LARGEST,
    most: float = LARGEST,
) -> CoveringArray:
    """All combinations of levels of any `strength` factors, of which factor i has `sizes[i]`.

    A row costs `usual` at most, or what the combination that it begins with costs, if that is
    more; combinations that cost more than `most` are left out, and named.
    """
    strength = min(strength, len(sizes))
    waiting = list(_all(sizes, strength))
    rng.shuffle(waiting)
    new, rows, too_large, impossible = set(waiting), list[Row](), list[Levels](), 0
    for first in waiting:
        if first not in new:
            continue
        row = [OPEN] * len(sizes)
        for factor, level in first:
            row[factor] = level
        own = cost(tuple(row))
        if own <= most:
            row = _filled(row, sizes, strength, rng, new, cost, max(usual, own))
            new.difference_update(levels_of(row, strength))
            rows.append(tuple(row))
        elif math.isinf(own):
            impossible += 1
        else:
            too_large.append(first)
    # A row that costs more may have some that begin none.
    return CoveringArray(tuple(rows), impossible, tuple(one for one in too_large if one in new))


def levels_of(row: Sequence[int], strength: int) -> Iterator[Levels]:
    """The combinations of levels that a row has; none of a factor that is open."""
    placed = [(factor, level) for factor, level in enumerate(row) if level != OPEN]
    yield from combinations(placed, strength)


def _all(sizes: Sequence[int], strength: int) -> Iterator[Levels]:
    for factors in combinations(range(len(sizes)), strength):
        for levels in product(*(range(sizes[factor]) for factor in factors)):
            yield tuple(zip(factors, levels, strict=True))


def _filled(
    row: list[int],
    sizes: Sequence[int],
    strength: int,
    rng: random.Random,
    new: set[Levels],
    cost: Cost,
    most: float,
) -> list[int]:
    """The row with a level for each factor that is open, as far as one keeps the cost."""
    left = [factor for factor, level in enumerate(row) if level == OPEN]
    for factor in rng.sample(left, len(left)):
        placed = [(f, level) for f, level in enumerate(row) if level != OPEN]
        partners = list(combinations(placed, strength - 1))
        gains = [
            (sum(_with(others, (factor, level)) in new for others in partners), rng.random(), level)
            for level in range(sizes[factor])
        ]
        for _, _, level in sorted(gains, reverse=True):
            row[factor] = level
            if cost(tuple(row)) <= most:
                break
            row[factor] = OPEN
    return row


def _with(others: Levels, one: tuple[int, int]) -> Levels:
    """Both, in the order of the factors."""
    for place, (factor, _) in enumerate(others):
        if factor > one[0]:
            return (*others[:place], one, *others[place:])
    return (*others, one)
