"""The dtypes of kernels as numbers: bytes to float64 or int64, rounding, units in the last place.

The 8-bit floats are those of the OCP specifications (OFP8, and E8M0 of MX's scales), with
saturation: CUDA's conversions and quantised kernels write the largest number where the result is
larger. e4m3fn has no infinity.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from astra_chat.tools.dtypes import UNSIGNED_POWERS
from astra_chat.tools.types import DTypeName, is_float

Array = np.ndarray[Any, Any]

OVERFLOW: dict[DTypeName, float] = {
    "float16": 2.0**16,
    "bfloat16": 2.0**128,
    "float32": 2.0**128,
    "float8_e4m3fn": math.inf,
    "float8_e5m2": math.inf,
    "float8_e8m0fnu": math.inf,
}
"""Where a dtype has become infinite: larger results must be infinite too. Never where a dtype
saturates."""
SATURATION: dict[DTypeName, float] = {
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
    "float8_e8m0fnu": 2.0**127,
}
"""Largest number of a dtype whose results may stop there."""
FRACTION_BITS: dict[DTypeName, int] = {
    "float16": 10,
    "bfloat16": 7,
    "float32": 23,
    "float8_e4m3fn": 3,
    "float8_e5m2": 2,
    "float8_e8m0fnu": 0,
}
MIN_EXPONENT: dict[DTypeName, int] = {
    "float16": -14,
    "bfloat16": -126,
    "float32": -126,
    "float8_e4m3fn": -6,
    "float8_e5m2": -14,
    "float8_e8m0fnu": -127,
}
"""Least binary exponent of a dtype's normal numbers."""
DOUBLE_FRACTION, DOUBLE_BIAS, DOUBLE_SPECIAL = 52, 1023, 2047 << 52
"""Bits of a float64's fraction, bias of its exponent, and the bits of infinity's exponent."""
STORED: dict[DTypeName, Any] = {
    "float16": np.float16,
    "float32": np.float32,
    "int8": np.int8,
    "uint8": np.uint8,
    "int32": np.int32,
    "int64": np.int64,
    "bool": np.uint8,
}


def as_float(content: Array, dtype: DTypeName) -> Array:
    """Bytes of a dtype as float64, exactly but for int64 beyond 2^53. Of a bool the byte."""
    if dtype in SATURATION:
        decoded: Array = _decoded(dtype)[content.view(np.uint8)]
        return decoded
    if dtype == "float16":  # three times as fast as NumPy's cast
        found: Array = _halves()[content.view(np.uint16)]
        return found
    if dtype == "bfloat16":
        widened = content.view(np.uint16).astype(np.uint32) << 16
        typed: Array = widened.view(np.float32)
    else:
        typed = content.view(STORED[dtype])
    with np.errstate(invalid="ignore"):  # a signalling NaN is as good a NaN as any
        return typed.astype(np.float64)


def as_int(content: Array, dtype: DTypeName) -> Array:
    """Bytes of an integer dtype or of bool as int64, exactly. Of a bool the byte: one that is
    neither 0 nor 1 is no bool."""
    widened: Array = content.view(STORED[dtype]).astype(np.int64)
    return widened


def rounded(values: Array, dtype: DTypeName) -> Array:
    """float64 rounded to the nearest value of a dtype, ties to even, as float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype == "float32":
            return values.astype(np.float32).astype(np.float64)
        # Infinity and NaN, whose step is that of 1.0, stay what they are.
        step = ulp(values, dtype)
        nearest: Array = np.asarray(values / step)
        np.rint(nearest, out=nearest)
        nearest *= step
        if (largest := largest_of(dtype)) < math.inf:
            return np.clip(nearest, least_of(dtype), largest)
        beyond = np.abs(nearest) >= OVERFLOW[dtype]
        if beyond.any():
            nearest[beyond] = np.copysign(math.inf, nearest[beyond])
        return nearest


def largest_of(dtype: DTypeName) -> float:
    """Where a dtype saturates; infinity where it overflows."""
    if is_float(dtype):
        return SATURATION.get(dtype, math.inf)
    return 1.0 if dtype == "bool" else float(np.iinfo(STORED[dtype]).max)


def overflow_of(dtype: DTypeName) -> float:
    """Results from here on are infinite; infinity of integers and of what saturates."""
    return OVERFLOW.get(dtype, math.inf)


def least_of(dtype: DTypeName) -> float:
    if dtype == UNSIGNED_POWERS:
        return 2.0 ** MIN_EXPONENT[dtype]
    return -largest_of(dtype) if is_float(dtype) else float(np.iinfo(STORED[dtype]).min)


def ulp(values: Array, dtype: DTypeName) -> Array:
    """The unit in the last place at each value, 1.0 of an integer; NaN's and infinity's are one of
    1.0."""
    if not is_float(dtype):
        return np.ones(np.shape(values))
    # Exponents stay where they are: each step more is a pass through memory.
    exponent = np.asarray(np.asarray(values, dtype=np.float64).view(np.int64) & DOUBLE_SPECIAL)
    if exponent.max(initial=0) == DOUBLE_SPECIAL:
        special = exponent == DOUBLE_SPECIAL
        exponent = np.where(special, DOUBLE_BIAS << DOUBLE_FRACTION, exponent)
    least = MIN_EXPONENT[dtype] + DOUBLE_BIAS << DOUBLE_FRACTION
    exponent = np.maximum(exponent, least, out=exponent)
    exponent -= FRACTION_BITS[dtype] << DOUBLE_FRACTION
    units: Array = exponent.view(np.float64)
    return units


def half_ulp(values: Array, dtype: DTypeName) -> Array:
    """Half the unit in the last place at each value."""
    units = ulp(values, dtype)
    if is_float(dtype):  # an exponent less is a cheaper pass than a product
        units.view(np.int64)[...] -= 1 << DOUBLE_FRACTION
        return units
    return 0.5 * units


def beside_nearest(
    got: Array,
    expected: Array,
    dtype: DTypeName,
    error: Array | None = None,
    half: Array | None = None,
) -> Array:
    """Which values of a dtype are not the nearest to the expected ones, ties to even. `error`,
    `half`: |got - expected| and half an ulp of what is expected, where they are known.

    A value of 16 bits that is less than half an ulp off is the nearest, and one that is more is
    not: only for ties, and for what is not finite, `expected` has to be rounded.
    """
    if dtype not in ("float16", "bfloat16"):
        other: Array = got != rounded(expected, dtype)
        return other
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(got - expected) if error is None else error
        half = half_ulp(expected, dtype) if half is None else half
        beside: Array = error > half
        unsure = error == half
        if not error.max(initial=0.0) < math.inf:
            unsure |= ~np.isfinite(error)
    if unsure.any():
        beside[unsure] = got[unsure] != rounded(expected[unsure], dtype)
    return beside


def steps(values: Array, dtype: DTypeName) -> Array:
    """The place of each value, which a dtype of 8 bits has, in the order of its numbers: two
    neighbours differ by one. int64; 0.0 and -0.0 are one. Any place for NaN."""
    if not is_float(dtype):
        return values.astype(np.int64)
    magnitudes = _decoded(dtype)[: 2 ** (8 if dtype == UNSIGNED_POWERS else 7)]
    finite = magnitudes[np.isfinite(magnitudes)]
    places = np.searchsorted(finite, np.minimum(np.abs(values), finite[-1]))
    signed: Array = np.where(np.signbit(values), -places, places).astype(np.int64)
    return signed


@cache
def _halves() -> Array:
    """The number of each float16."""
    with np.errstate(invalid="ignore"):
        return np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float64)


@cache
def _decoded(dtype: DTypeName) -> Array:
    """The number of each of the 256 codes of an 8-bit float."""
    code, bits = np.arange(2**8), FRACTION_BITS[dtype]
    if dtype == UNSIGNED_POWERS:
        return np.where(code == 0xFF, np.nan, np.ldexp(1.0, code + MIN_EXPONENT[dtype]))
    exponent, fraction = (code & 0x7F) >> bits, code & 2**bits - 1
    bias = 1 - MIN_EXPONENT[dtype]
    significand = np.where(exponent == 0, 0, 2**bits) + fraction
    numbers = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - bits)
    if dtype == "float8_e4m3fn":
        numbers[(code & 0x7F) == 0x7F] = np.nan
    else:
        top = exponent == 0x1F
        numbers[top] = np.where(fraction[top] == 0, np.inf, np.nan)
    signed: Array = np.where(code & 0x80, -numbers, numbers)
    return signed


def as_bytes(values: Array, dtype: DTypeName) -> Array:
    """float64 or int64 as bytes of a dtype, floats rounded to the nearest."""
    if dtype in SATURATION:
        codes = np.abs(steps(np.nan_to_num(rounded(values, dtype)), dtype)).astype(np.uint8)
        if dtype == UNSIGNED_POWERS:
            unsigned: Array = np.where(np.isnan(values), np.uint8(0xFF), codes)
            return unsigned
        codes = np.where(np.isnan(values), 0x7F, codes) | (np.signbit(values) * np.uint8(0x80))
        packed: Array = codes.astype(np.uint8)
        return packed
    if dtype == "bfloat16":
        with np.errstate(over="ignore", invalid="ignore"):
            single = rounded(values, dtype).astype(np.float32)
        stored: Array = (single.view(np.uint32) >> 16).astype(np.uint16)
    else:
        if values.dtype.kind == "f" and not is_float(dtype):
            values = np.nan_to_num(rounded(values, dtype))
        with np.errstate(over="ignore", invalid="ignore"):
            stored = values.astype(STORED[dtype])
    return stored.view(np.uint8)
