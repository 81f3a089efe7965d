"""A candidate's figures over all cases: what the verdict uses and what is published."""

from __future__ import annotations

import math
from collections.abc import Sequence

from astra_chat.tools.types import AnyTime, Timed
from astra_chat.tools.virtual_gpu.adapter import SHARED


def mean_interval(cases: Sequence[AnyTime]) -> tuple[float, float]:
    """Interval of the weighted geometric mean.

    Errors of measurements are each case's own: their half widths add in quadrature. An estimate's
    are those of one model: a share of their variance is common to all cases, and does not average
    out.
    """
    weights = _weights([c.weight for c in cases])
    total = sum(weights)
    middle = mean([(c.ratio, c.weight) for c in cases])
    widths = [math.log(c.ratio_high / c.ratio_low) / 2 for c in cases]
    half = [width * weight for width, weight in zip(widths, weights, strict=True)]
    shared = SHARED if cases[0].basis == "estimated" else 0.0
    variance = shared * sum(half) ** 2 + (1 - shared) * sum(h * h for h in half)
    factor = math.exp(math.sqrt(variance) / total)
    return middle / factor, middle * factor


def mean(ratios: Sequence[tuple[float, float]]) -> float:
    """Weighted geometric mean of (ratio, weight)."""
    weights = _weights([weight for _, weight in ratios])
    logs = [math.log(ratio) for ratio, _ in ratios]
    return math.exp(_product(weights, logs) / sum(weights))


def percent_of_limit(timed: Timed) -> float:
    """Share of the physical limit, weighted over the cases."""
    weights = _weights([case.weight for case in timed.cases])
    shares = [case.percent_of_limit for case in timed.cases]
    return _product(weights, shares) / sum(weights)


def _product(weights: Sequence[float], values: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, values, strict=True))


def _weights(weights: Sequence[float]) -> Sequence[float]:
    """Where all are 0, as a file that others wrote may say, every case counts the same."""
    return weights if sum(weights) > 0 else [1.0] * len(weights)
