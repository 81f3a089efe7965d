"""The dtypes of kernels as numbers: bytes to float64, rounding, units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np

from astra_chat.tools.types import DTypeName

Array = np.ndarray[Any, Any]

OVERFLOW: dict[DTypeName, float] = {
    "float16": 2.0**16, "bfloat16": 2.0**128, "float32": 2.0**128,
}  # fmt: skip
"""Where a dtype has become infinite: larger results must be infinite too."""
FRACTION_BITS: dict[DTypeName, int] = {"float16": 10, "bfloat16": 7, "float32": 23}
MIN_EXPONENT: dict[DTypeName, int] = {"float16": -14, "bfloat16": -126, "float32": -126}
"""Of normal numbers."""


def as_float(content: Array, dtype: DTypeName) -> Array:
    """Bytes of a dtype as float64, exactly."""
    if dtype == "bfloat16":
        widened = content.view(np.uint16).astype(np.uint32) << 16
        typed: Array = widened.view(np.float32)
    else:
        typed = content.view({"float16": np.float16, "float32": np.float32}[dtype])
    with np.errstate(invalid="ignore"):  # a signalling NaN is as good a NaN as any
        return typed.astype(np.float64)


def rounded(values: Array, dtype: DTypeName) -> Array:
    """float64 rounded to the nearest value of a dtype, ties to even, as float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "float16":
            return values.astype(np.float16).astype(np.float64)
        if dtype == "float32":
            return values.astype(np.float32).astype(np.float64)
        step = ulp(values, dtype)
        nearest: Array = np.where(np.isfinite(values), np.rint(values / step) * step, values)
        return np.where(np.abs(nearest) >= OVERFLOW[dtype], np.sign(nearest) * np.inf, nearest)


def ulp(values: Array, dtype: DTypeName) -> Array:
    """The unit in the last place at each value; NaN's and infinity's are one of 1.0."""
    magnitude = np.where(np.isfinite(values), np.abs(values), 1.0)
    exponent = np.maximum(np.frexp(magnitude)[1] - 1, MIN_EXPONENT[dtype])
    exponent = np.where(magnitude == 0, MIN_EXPONENT[dtype], exponent)
    units: Array = np.ldexp(1.0, exponent - FRACTION_BITS[dtype])
    return units
