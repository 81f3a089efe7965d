"""The comparison of an argument's elements with the oracle's, by the argument's judgement kind.

Codes of 8 bits that mean a number times the scale of their group are `quantized`: a code may be the
nearest one or, in a stated share of all, one step beside it; the scales are an argument of their
own. What a code means, code times scale, is then held to the oracle with the baseline's own error,
as floats are (error_norms.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from astra_chat.tools.check.floats import (
    OVERFLOW,
    SATURATION,
    Array,
    as_float,
    as_int,
    largest_of,
    least_of,
    rounded,
    steps,
)
from astra_chat.tools.task.folder import Arg, Task, Tolerance
from astra_chat.tools.types import Case, DTypeName, is_float

LEAST_NORMAL = 2.0**-126
"""Least normal number of float32: arithmetic that flushes takes what is smaller for zero, and the
oracle may do so, too."""
NOTES = {
    "close": "allowed error there: {allowed:.3g}",
    "exact": "it must be exact",
    "quantized": "a code may be one step away from the nearest code",
}
SIGMAS = 3.0
"""What chance adds to the share of few codes that are a step off."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of values with the expected ones, element by element."""

    good: Array
    same_pattern: Array
    """NaN and infinity are where they belong."""
    share: Array
    """Error over the allowed error."""
    allowed: Array
    """Error that is allowed."""
    off: Array | None = None
    """Good elements of which only a share may be so: codes that are one step off."""


Compare = Callable[[Array, Array], Comparison]
"""Comparison of the bytes of some elements with what is expected of them."""


def comparison(task: Task, arg: Arg, case: Case) -> Compare:
    """Returns the comparison for an argument that is judged by its elements. Where outputs are in
    canonical form, only such elements are left whose value is specified."""
    dtype = arg.dtype_of(case)
    match arg.judged_by(case):
        case "exact":
            return partial(_exact, dtype)
        case "quantized":
            return lambda content, codes: compare_codes(as_float(content, dtype), codes, dtype)
    tolerance = task.tolerance_of(arg, case)
    return lambda content, expected: compare_close(
        as_float(content, dtype), expected, tolerance, dtype
    )


def _exact(dtype: DTypeName, content: Array, expected: Array) -> Comparison:
    number = as_float if is_float(dtype) else as_int
    return compare_exact(number(content, dtype), expected)


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


def compare_close(
    got: Array, expected: Array, tolerance: Tolerance, dtype: DTypeName
) -> Comparison:
    """float64 against float64. Where all are finite and in range, as nearly always, only the errors
    are computed; else NaN and infinity patterns first: no comparison with NaN is true."""
    overflow = OVERFLOW[dtype]
    largest = SATURATION.get(dtype, overflow)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.asarray(got - expected)
    np.abs(error, out=error)
    allowed = np.asarray(np.abs(expected))
    most = float(allowed.max(initial=0.0))
    near = most + float(error.max(initial=0.0)) <= largest  # then `got` is no larger, either
    if most <= largest and (near or _within(got, largest)):
        allowed *= tolerance.rtol
        allowed += tolerance.atol
        np.maximum(allowed, LEAST_NORMAL, out=allowed)
        share = np.divide(error, allowed, out=error)
        return Comparison(share <= 1.0, np.ones(got.shape, np.bool_), share, allowed)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        beyond = np.abs(expected) > overflow * (1 + tolerance.rtol)
        same_pattern = (np.isnan(got) == np.isnan(expected)) & (
            ~beyond | (np.isinf(got) & (np.sign(got) == np.sign(expected)))
        )
        target = np.clip(expected, -largest, largest)
        allowed = np.maximum(tolerance.atol + tolerance.rtol * np.abs(target), LEAST_NORMAL)
        error = np.abs(np.clip(got, -largest, largest) - target)
        share = np.where(error == 0, 0.0, error / allowed)
    good = same_pattern & ((share <= 1.0) | np.isnan(expected))
    return Comparison(good, same_pattern, share, allowed)


def _within(values: Array, largest: float) -> bool:
    """Whether none is beyond it; a NaN is."""
    low, high = values.min(initial=0.0), values.max(initial=0.0)
    return bool(-largest <= low and high <= largest)


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
