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
    """float64 against float64. NaN and infinity patterns first: no comparison with NaN is true."""
    overflow = OVERFLOW[dtype]
    largest = SATURATION.get(dtype, overflow)
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
