"""Intervals of ratios that need no assumption about how samples are distributed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from astra_chat.tools.types import Value

CONFIDENCE = 0.95
RESAMPLES = 1000


class Interval(Value):
    """A ratio, and where it lies with 95 % confidence."""

    ratio: float
    low: float
    high: float

    @property
    def words(self) -> str:
        return f"{self.ratio:.4f} ({self.low:.4f} to {self.high:.4f})"


def median_interval(values: Sequence[float]) -> Interval:
    """The median, between two of the sorted values: the median of what they are drawn from lies
    there in 95 of 100 cases. With less than 6 values, all of them."""
    ordered = sorted(values)
    n = len(ordered)
    place, below = 0, 0.0
    while place < n // 2:
        below += math.comb(n, place) / 2**n
        if below > (1 - CONFIDENCE) / 2:
            break
        place += 1
    outer = max(place - 1, 0)
    return Interval(
        ratio=statistics.median(ordered), low=ordered[outer], high=ordered[n - 1 - outer]
    )


def error_ratio(with_winners: Sequence[float], without: Sequence[float], seed: int) -> Interval:
    """The ratio of two root mean square errors on the same rows, from squared errors; its interval
    by drawing the rows again."""
    squares = np.array([with_winners, without], dtype=np.float64)
    ratio = math.sqrt(_quotient(squares.sum(1)))
    draws = np.random.default_rng(seed)
    places = draws.integers(0, squares.shape[1], (RESAMPLES, squares.shape[1]))
    found = sorted(math.sqrt(_quotient(squares[:, some].sum(1))) for some in places)
    outer = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    return Interval(ratio=ratio, low=found[outer], high=found[-1 - outer])


def _quotient(pair: np.ndarray) -> float:
    """Two results without any error are equally good."""
    first, second = map(float, pair)
    if second == 0.0:
        return 1.0 if first == 0.0 else math.inf
    return first / second
