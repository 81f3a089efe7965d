"""Judgement kind `quantized`: codes of 8 bits that mean a number times the scale of their group.

A code may be the nearest one or, in a stated share of all, one step beside it; the scales are an
argument of their own. What a code means, code times scale, is then held to the oracle with the
baseline's own error, as floats are (error_norms.py).
"""

from __future__ import annotations

import math

import numpy as np

from astra_chat.tools.check.floats import Array, largest_of, least_of, rounded, steps
from astra_chat.tools.check.kinds.comparison import Comparison
from astra_chat.tools.types import DTypeName

SIGMAS = 3.0
"""What chance adds to the share of few codes that are a step off."""


def compare_codes(got: Array, expected: Array, dtype: DTypeName) -> Comparison:
    """Codes as float64 against what is to be coded, in units of the code, float64, not rounded.

    What lies beyond the dtype's range is expected at its end.
    """
    nan = np.isnan(expected)
    same_pattern = np.isnan(got) == nan
    apart = np.abs(steps(_number(got), dtype) - steps(rounded(_number(expected), dtype), dtype))
    apart = np.where(nan, 0, apart)
    good = same_pattern & (apart <= 1)
    return Comparison(
        good, same_pattern, apart.astype(float), np.ones(len(got)), good & (apart == 1)
    )


def most_off(share: float, count: int) -> float:
    """How many of so many codes may be a step off, where `share` of them may."""
    return share * count + SIGMAS * math.sqrt(share * (1 - share) * count)


def scale_ratios(scales: Array, expected_scales: Array) -> Array:
    """What a code means, in units of the expected code, over the code: float64. Where the expected
    scale is zero every code means zero."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(scales == expected_scales, 1.0, scales / expected_scales)
        return np.where(expected_scales == 0, 0.0, ratio)


def to_code(expected: Array, dtype: DTypeName) -> Array:
    """What is to be coded, within the range of the codes."""
    return np.clip(expected, least_of(dtype), largest_of(dtype))


def group_places(flat: Array, shape: tuple[int, ...], group: tuple[int, ...]) -> Array:
    """Flat position of the scale of each code at these flat positions of an argument [shape]; the
    scales lie in row-major order of the groups, each [group]."""
    groups = tuple(-(-extent // size) for extent, size in zip(shape, group, strict=True))
    places = np.unravel_index(flat, shape)
    of_groups = tuple(place // size for place, size in zip(places, group, strict=True))
    return np.ravel_multi_index(of_groups, groups)


def _number(values: Array) -> Array:
    return np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)
