"""Rounding as PTX wants it: halves, directed modes, flushed subnormals, and one rounding an FMA.

Double rounding is avoided by rounding to odd first (S. Boldo, G. Melquiond, "Emulation of a FMA and
correctly rounded sums: proved algorithms using rounding to odd", 2008). Halves are raw uint16.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from astra_vgpu.numpy_engine.dtypes import Array

_F32_SIGN = np.uint32(0x80000000)
_F32_EXPONENT = np.uint32(0x7F800000)
_F32_TINY = int(np.float64(2.0**-126).view(np.uint64)) - 1
"""One less than the bits, as float64, of float32's smallest normal number."""
_HALF_VALUES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
_HALF_NAN = np.uint16(0x7FFF)
MODES = ("rn", "rz", "rm", "rp")


def flush(value: Array) -> Array:
    """float32 with subnormals replaced by zeros of their sign."""
    bits = value.view(np.uint32)
    probe = bits + bits
    probe -= np.uint32(1)
    if probe.size and int(probe.min()) >= 0xFFFFFF:
        return value
    sign = bits & _F32_SIGN
    return np.where((bits & _F32_EXPONENT) == 0, sign, bits).view(np.float32)


def flush_tiny(value: Array, enlarged: Callable[[], Array]) -> Array:
    """Like `flush`, for a result: the GPU looks at it as it would be were its exponent unlimited,
    so one that was only rounded up to the smallest normal number is 0 too.

    enlarged: the operation's result times 2^24.
    """
    bits = value.view(np.uint32)
    probe = bits + bits
    probe -= np.uint32(1)
    if probe.size and int(probe.min()) > 0xFFFFFF:
        return value
    result = flush(value)
    edge = probe == np.uint32(0xFFFFFF)
    if not edge.any():
        return result
    below = np.abs(enlarged()) < 2.0**-102
    return np.where(edge & below, bits & _F32_SIGN, result.view(np.uint32)).view(np.float32)


def saturate(value: Array) -> Array:
    """Clamped to [0, 1]; NaN becomes 0 and so does -0."""
    clamped: Array = np.fmin(np.fmax(value, 0), 1) + value.dtype.type(0)
    return clamped


def widen_half(bits: Array) -> Array:
    """float16 bits to float32; exact."""
    return _HALF_VALUES.take(bits)


def widen_bfloat(bits: Array) -> Array:
    """bfloat16 bits to float32; exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow_half(value: Array) -> Array:
    """float32 or float64 to float16 bits, to nearest even; NaN becomes 0x7fff."""
    bits: Array = value.astype(np.float16).view(np.uint16)
    return _canonical(bits, value)


def narrow_bfloat(value: Array) -> Array:
    """float32 or float64 to bfloat16 bits, to nearest even; NaN becomes 0x7fff."""
    single = value
    if value.dtype == np.float64:
        single = value.astype(np.float32)
        # A second rounding can only matter where the first ended half-way between two bfloat16.
        halfway = (single.view(np.uint32) & np.uint32(0xFFFF)) == np.uint32(0x8000)
        single = patched(single, halfway, odd_float32, value)
    wide = single.view(np.uint32)
    up = (wide >> np.uint32(16)) & np.uint32(1)
    up += np.uint32(0x7FFF)
    up += wide
    up >>= np.uint32(16)
    return _canonical(up.astype(np.uint16), single)


def patched(values: Array, where: Array, compute: Callable[..., Array], *operands: Array) -> Array:
    """`values` with those that `where` marks computed again: in full, hence only for a few."""
    if not where.any():
        return values
    fixed = values.copy()
    fixed[where] = compute(*(np.broadcast_to(o, values.shape)[where] for o in operands))
    return fixed


def _canonical(bits: Array, value: Array) -> Array:
    bad = np.isnan(value)
    return np.where(bad, _HALF_NAN, bits) if bad.any() else bits


def odd_float32(exact: Array) -> Array:
    """float64 to float32 by rounding to odd: any later rounding to fewer bits is then correct."""
    near = exact.astype(np.float32)
    bits = near.view(np.uint32)
    cut = toward(bits, near.astype(np.float64), exact, "rz")
    inexact = (near != exact) & ~np.isnan(exact)
    return np.where(inexact, cut | np.uint32(1), bits).view(np.float32)


def toward(bits: Array, rounded: Array, exact: Array, mode: str) -> Array:
    """Corrects a result rounded to nearest to a directed mode.

    bits: its raw bits; rounded, exact: its value and the exact one, both float64.
    """
    if mode == "rn":
        return bits
    high, low = rounded > exact, rounded < exact
    if mode == "rz":
        high, low = high & (exact > 0), low & (exact < 0)
    elif mode == "rm":
        low = np.zeros_like(low)
    else:
        high = np.zeros_like(high)
    one = bits.dtype.type(1)
    sign = bits.dtype.type(1 << (bits.dtype.itemsize * 8 - 1))
    positive = (bits & sign) == 0
    zero = (bits & ~sign) == 0
    down = np.where(zero, sign | one, np.where(positive, bits - one, bits + one))
    up = np.where(zero, one, np.where(positive, bits + one, bits - one))
    return np.where(high, down, np.where(low, up, bits))


def float32_of(exact: Array, mode: str) -> Array:
    """float64 to float32 in a rounding mode. Correct for exact or odd-rounded float64."""
    if mode == "rn":
        near: Array = exact.astype(np.float32)
        return near
    # Within float32's normal range the 29 bits that do not fit are cut, away from zero after
    # adding what carries into the next float32.
    bits = exact.view(np.int64)
    magnitude = np.abs(exact)
    probe = magnitude.view(np.uint64) - np.uint64(1)
    if not (magnitude.max() < 2.0**127 and int(probe.min()) >= _F32_TINY):
        near = exact.astype(np.float32)
        fixed = toward(near.view(np.uint32), near.astype(np.float64), exact, mode)
        return fixed.view(np.float32)
    cut = np.int64(0x1FFFFFFF)
    if mode == "rm":
        bits = bits + ((bits >> np.int64(63)) & cut)
    elif mode == "rp":
        bits = bits + (~(bits >> np.int64(63)) & cut)
    result: Array = (bits & ~cut).view(np.float64).astype(np.float32)
    return result


def half_of(
    exact: Array, mode: str, narrow: Callable[[Array], Array], widen: Callable[[Array], Array]
) -> Array:
    """float64 to half bits in a rounding mode. Correct for exact or odd-rounded float64."""
    bits = narrow(exact)
    if mode == "rn":
        return bits
    return toward(bits, widen(bits).astype(np.float64), exact, mode)


def odd_sum(a: Array, b: Array) -> Array:
    """float64 a + b rounded to odd."""
    return _to_odd(*_two_sum(a, b))


def _to_odd(near: Array, error: Array) -> Array:
    """float64 rounded to nearest, to odd instead. error: of the sign of exact minus near."""
    bits = near.view(np.int64)
    away = (error > 0) == (near > 0)
    fix = (error != 0) & ((bits & 1) == 0) & np.isfinite(near) & np.isfinite(error)
    return (bits + np.where(fix, np.where(away, 1, -1), 0)).view(np.float64)


def exact_fma(a: Array, b: Array, c: Array) -> Array:
    """float32 or half values a * b + c as float64 rounded to odd: the product is exact."""
    product = a.astype(np.float64) * b
    return odd_sum(*np.broadcast_arrays(product, c.astype(np.float64)))


def narrowing_fma(a: Array, b: Array, c: Array, bits: int) -> Array:
    """A * b + c as float64, good for one more rounding, to `bits` bits of fraction or fewer.

    That rounding can only go wrong where the rest of the bits is zero: half-way between two
    values, or on one. Only there the sum is rounded to odd.
    """
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    near, rest = _two_sum(product, addend)
    tail = near.view(np.uint64) & np.uint64((1 << (51 - bits)) - 1)
    return patched(near, (tail == 0) & (np.abs(rest) > 0), exact_fma, a, b, c)


def fma32(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """float32 fused multiply-add."""
    total = narrowing_fma(a, b, c, 23)
    if mode == "rm":
        total = zero_down(total, a.astype(np.float64) * b, c)
    return float32_of(total, mode)


def zero_down(total: Array, a: Array, b: Array) -> Array:
    """The sum of a and b where the mode is down: an exact 0 is -0, but for +0 and +0."""
    plus = (a == 0) & ~np.signbit(a) & ~np.signbit(b)
    return np.where((total == 0) & ~plus, -0.0, total)


def fma64(a: Array, b: Array, c: Array) -> Array:
    """float64 fused multiply-add, to nearest."""
    a, b, c = np.broadcast_arrays(a, b, c)
    high, low = _product(a, b)
    top, carry = _two_sum(c, low)
    total, rest = _two_sum(high, top)
    result = total + odd_sum(carry, rest)
    magnitude = np.abs(np.stack([a, b, c, result]))
    unsafe = ((magnitude > 2.0**480) | ((magnitude < 2.0**-480) & (magnitude != 0))).any(axis=0)
    unsafe |= ~np.isfinite(result) | (result == 0)
    if unsafe.any():
        result = result.copy()
        triples = zip(a[unsafe], b[unsafe], c[unsafe], strict=True)
        result[unsafe] = [_slow_fma(float(x), float(y), float(z)) for x, y, z in triples]
    return result


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)


def _product(a: Array, b: Array) -> tuple[Array, Array]:
    """A * b as an unevaluated sum of two float64 (G. Veltkamp, T. Dekker, 1971)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def _slow_fma(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b)):
        return a * b + c
    if not np.isfinite(c):
        return c  # the product is finite, even where it would overflow
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def add32(a: Array, b: Array, mode: str) -> Array:
    if mode == "rn":
        return a + b
    wide = np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64))
    total = odd_sum(*wide)
    return float32_of(zero_down(total, *wide) if mode == "rm" else total, mode)


def mul32(a: Array, b: Array, mode: str) -> Array:
    return a * b if mode == "rn" else float32_of(a.astype(np.float64) * b, mode)


def div32(a: Array, b: Array, mode: str) -> Array:
    if mode == "rn":
        near: Array = a / b
        return near
    dividend, divisor = np.broadcast_arrays(a.astype(np.float64), b.astype(np.float64))
    quotient = dividend / divisor
    product, rest = _product(quotient, divisor)
    remainder = (dividend - product) - rest
    return float32_of(_to_odd(quotient, remainder * np.sign(divisor)), mode)


def sqrt32(a: Array, mode: str) -> Array:
    if mode == "rn":
        near: Array = np.sqrt(a)
        return near
    square = a.astype(np.float64)
    root = np.sqrt(square)
    product, rest = _product(root, root)
    return float32_of(_to_odd(root, (square - product) - rest), mode)


def minimum(a: Array, b: Array, *, keep_nan: bool = False) -> Array:
    """-0 is less than +0; NaN only if both are NaN, or, with keep_nan, if any is."""
    return _extreme(a, b, np.fmin, np.bitwise_or, keep_nan)


def maximum(a: Array, b: Array, *, keep_nan: bool = False) -> Array:
    return _extreme(a, b, np.fmax, np.bitwise_and, keep_nan)


def of_magnitudes(choose: Callable[..., Array]) -> Callable[..., Array]:
    """.xorsign.abs: of the magnitudes, with the sign that a product would have unless it is NaN
    (PTX ISA 9.0, min and max)."""

    def chosen(a: Array, b: Array, *, keep_nan: bool = False) -> Array:
        found = choose(np.abs(a), np.abs(b), keep_nan=keep_nan)
        negative = (np.signbit(a) ^ np.signbit(b)) & ~np.isnan(found)
        return np.where(negative, -found, found)

    return chosen


def _extreme(a: Array, b: Array, choose: Any, join: Any, keep_nan: bool) -> Array:
    result: Array = choose(a, b)
    zeros = (result == 0) & (a == b)
    if zeros.any():
        raw = np.dtype(f"u{a.dtype.itemsize}")
        result = np.where(zeros, join(a.view(raw), b.view(raw)).view(a.dtype), result)
    lost = np.isnan(a) | np.isnan(b) if keep_nan else np.isnan(result)
    return np.where(lost, canonical_nan(a.dtype), result) if lost.any() else result


def one_nan(value: Array) -> Array:
    """32-bit values of float32 with the NaN of a GPU's arithmetic for each NaN."""
    bad = np.isnan(value.view(np.float32))
    nan = canonical_nan(np.dtype(np.float32)).view(value.dtype)
    return np.where(bad, nan, value) if bad.any() else value


def canonical_nan(dtype: Any) -> Array:
    bits = np.uint32(0x7FFFFFFF) if dtype == np.float32 else np.uint64(0x7FF8000000000000)
    return np.array(bits).view(dtype)
