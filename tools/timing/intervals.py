"""A candidate's figures over all cases: what the verdict uses and what is published."""

from __future__ import annotations

import math
from collections.abc import Sequence

from astra_chat.tools.types import AnyTime, Timed
from astra_chat.tools.virtual_gpu.model.ratio_interval import SHARED


def mean_interval(cases: Sequence[AnyTime]) -> tuple[float, float]:
    """Interval of the weighted geometric mean.

    Errors of measurements are each case's own: their half widths add in quadrature. An estimate's
    are those of one model: a share of their variance is common to all cases, and does not average
    out.
    """
    total = sum(c.weight for c in cases)
    middle = mean([(c.ratio, c.weight) for c in cases])
    half = [math.log(c.ratio_high / c.ratio_low) / 2 * c.weight for c in cases]
    shared = SHARED if cases[0].basis == "estimated" else 0.0
    variance = shared * sum(half) ** 2 + (1 - shared) * sum(h * h for h in half)
    factor = math.exp(math.sqrt(variance) / total)
    return middle / factor, middle * factor


def mean(ratios: Sequence[tuple[float, float]]) -> float:
    """Weighted geometric mean of (ratio, weight)."""
    total = sum(weight for _, weight in ratios)
    return math.exp(sum(weight * math.log(ratio) for ratio, weight in ratios) / total)


def percent_of_limit(timed: Timed) -> float:
    """Share of the physical limit, weighted over the cases."""
    weights = sum(case.weight for case in timed.cases)
    return sum(case.weight * case.percent_of_limit for case in timed.cases) / weights
