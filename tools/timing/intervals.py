"""A candidate's figures over all cases: what the verdict uses and what is published."""

from __future__ import annotations

import math
from collections.abc import Sequence

from astra_chat.tools.types import AnyTime, Timed


def over_all(timed: Timed) -> tuple[float, float]:
    """Ends of the interval of `timed.ratio`.

    Errors of measurements are each case's own and average out. An estimate's are those of one model
    and do not, so the ends themselves are averaged.
    """
    if timed.basis == "measured":
        return mean_interval(timed.cases)
    low = mean([(case.ratio_low, case.weight) for case in timed.cases])
    return low, mean([(case.ratio_high, case.weight) for case in timed.cases])


def mean_interval(cases: Sequence[AnyTime]) -> tuple[float, float]:
    """Interval of the weighted geometric mean: the cases' half widths in quadrature."""
    total = sum(c.weight for c in cases)
    middle = mean([(c.ratio, c.weight) for c in cases])
    half = [math.log(c.ratio_high / c.ratio_low) / 2 * c.weight for c in cases]
    factor = math.exp(math.sqrt(sum(h * h for h in half)) / total)
    return middle / factor, middle * factor


def mean(ratios: Sequence[tuple[float, float]]) -> float:
    """Weighted geometric mean of (ratio, weight)."""
    total = sum(weight for _, weight in ratios)
    return math.exp(sum(weight * math.log(ratio) for ratio, weight in ratios) / total)


def percent_of_limit(timed: Timed) -> float:
    """Share of the physical limit, weighted over the cases."""
    weights = sum(case.weight for case in timed.cases)
    return sum(case.weight * case.percent_of_limit for case in timed.cases) / weights
