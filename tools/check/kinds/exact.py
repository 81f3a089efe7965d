"""Judgement kind `exact`: integers, bools, and floats that are copies."""

from __future__ import annotations

import numpy as np

from astra_chat.tools.check.floats import Array
from astra_chat.tools.check.kinds.comparison import Comparison


def compare_exact(got: Array, expected: Array) -> Comparison:
    """int64 against int64, or float64 against float64: a zero has its sign, any NaN is a NaN."""
    if got.dtype.kind == "f":
        nan = np.isnan(expected)
        same_pattern = np.isnan(got) == nan
        good = same_pattern & (
            nan | ((got == expected) & (np.signbit(got) == np.signbit(expected)))
        )
    else:
        same_pattern, good = np.ones(len(got), np.bool_), got == expected
    nothing = np.zeros(len(got))
    return Comparison(good, same_pattern, np.where(good, 0.0, np.inf), nothing)
