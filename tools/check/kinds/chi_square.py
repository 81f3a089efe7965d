"""The upper tail of the chi-square distribution, in closed form for whole degrees of freedom."""

from __future__ import annotations

import math

import numpy as np


def log_tail(statistic: float, degrees: int) -> float:
    """Natural logarithm of the probability that chi-square with so many degrees of freedom is at
    least `statistic`.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.4.4 (odd) and 26.4.5 (even):
    with h = statistic / 2, for even degrees the sum of exp(-h) h^j / j! over j < degrees / 2; for
    odd ones erfc(sqrt(h)) and the sum of exp(-h) h^(j - 1/2) / Gamma(j + 1/2) over j from 1 to
    (degrees - 1) / 2. Summed as logarithms, so that nothing underflows.
    """
    if statistic <= 0:
        return 0.0
    half, odd = statistic / 2, degrees % 2
    first = 0.5 if odd else 0.0
    powers = first + np.arange(degrees // 2)
    # log Gamma(p + 1) for each power p, as a running sum of logarithms.
    steps = np.log(np.maximum(powers, 1e-300))
    steps[:1] = math.lgamma(first + 1)
    terms = powers * math.log(half) - half - np.cumsum(steps)
    if odd:
        terms = np.append(terms, _log_erfc(math.sqrt(half)))
    top = float(np.max(terms))
    return min(0.0, top + math.log(float(np.sum(np.exp(terms - top)))))


def _log_erfc(x: float) -> float:
    """Beyond the range of float64 by its asymptotic expansion (Abramowitz and Stegun, 7.1.23)."""
    if x < 20:
        return math.log(math.erfc(x))
    return -x * x - math.log(x * math.sqrt(math.pi)) + math.log1p(-1 / (2 * x * x))
