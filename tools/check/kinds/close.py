"""Judgement kind `close`: floats within a tolerance of the oracle's."""

from __future__ import annotations

import numpy as np

from astra_chat.tools.check.floats import OVERFLOW, SATURATION, Array
from astra_chat.tools.check.kinds.comparison import Comparison
from astra_chat.tools.task.folder import Tolerance
from astra_chat.tools.types import DTypeName


def compare_close(
    got: Array, expected: Array, tolerance: Tolerance, dtype: DTypeName
) -> Comparison:
    """float64 against float64. Where all are finite and in range, as nearly always, only the errors
    are computed; else NaN and infinity patterns first: no comparison with NaN is true."""
    overflow = OVERFLOW[dtype]
    largest = SATURATION.get(dtype, overflow)
    if _within(expected, largest) and _within(got, largest):
        error = np.abs(got - expected)
        allowed = tolerance.atol + tolerance.rtol * np.abs(expected)
        share = np.zeros_like(error)
        with np.errstate(divide="ignore"):
            np.divide(error, allowed, out=share, where=True if tolerance.atol else error > 0)
        return Comparison(share <= 1.0, np.ones(got.shape, np.bool_), share, allowed)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        beyond = np.abs(expected) > overflow * (1 + tolerance.rtol)
        same_pattern = (np.isnan(got) == np.isnan(expected)) & (
            ~beyond | (np.isinf(got) & (np.sign(got) == np.sign(expected)))
        )
        target = np.clip(expected, -largest, largest)
        allowed = tolerance.atol + tolerance.rtol * np.abs(target)
        error = np.abs(np.clip(got, -largest, largest) - target)
        share = np.where(error == 0, 0.0, error / allowed)
    good = same_pattern & ((share <= 1.0) | np.isnan(expected))
    return Comparison(good, same_pattern, share, allowed)


def _within(values: Array, largest: float) -> bool:
    """Whether none is beyond it; a NaN is."""
    low, high = values.min(initial=0.0), values.max(initial=0.0)
    return bool(-largest <= low and high <= largest)
