"""Two candidates of one run compared: by how much their ratios must differ to be told apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from astra_chat.tools.timing.intervals import mean_interval
from astra_chat.tools.types import AnyTime, Basis, Timed
from astra_chat.tools.virtual_gpu.adapter import ALIKE, SPREAD

Comparison = Literal["faster", "tie", "slower"]
ESTIMATES = math.exp(SPREAD * ALIKE)
"""Estimates of kernels that spend their time alike are told apart from this ratio on."""
BETWEEN_EVALUATIONS = 0.005
"""Largest difference, as a logarithm, of one kernel's ratio over all cases from one evaluation to
the next, in 12 of 13 pairs on an H200: memory lies elsewhere, clocks and temperature are others,
which the intervals of one process do not see (docs/research/measurements.md)."""


def resolution(one: Timed, other: Timed) -> float:
    """The least ratio of their speeds that is no tie. Measured: from the intervals of both over the
    same baseline, and BETWEEN_EVALUATIONS. Estimated: ESTIMATES, for the model errs alike on two
    like kernels."""
    return resolution_of(one.cases, other.cases)


def resolution_of(one: Sequence[AnyTime], other: Sequence[AnyTime]) -> float:
    """The least ratio of two candidates' speeds that is no tie, by their times on the same
    cases."""
    if one[0].basis == "estimated":
        return ESTIMATES
    intervals = map(mean_interval, (one, other))
    widths = (math.log(high / low) / 2 for low, high in intervals)
    return math.exp(math.hypot(*widths, BETWEEN_EVALUATIONS))


def compared(new: Timed, old: Timed) -> Comparison:
    """The new one against the old one, over all cases."""
    ratio, least = new.ratio / old.ratio, resolution(new, old)
    if ratio >= least:
        return "faster"
    return "slower" if ratio <= 1 / least else "tie"


def resolution_text(basis: Basis) -> str:
    """What a tie between two candidates is, as text."""
    if basis == "measured":
        return (
            "whose ratios differ by less than the 95 % intervals of both and"
            f" {BETWEEN_EVALUATIONS:.1%}, added in quadrature (the latter is how much one"
            " kernel's ratio varies between evaluations),"
        )
    return f"whose ratios differ by less than {ESTIMATES - 1:.0%}"
