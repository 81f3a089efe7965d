"""Conversions of 8-bit floats against tables of fractions: every half, every code, and floats round
every boundary."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

LARGEST = {"e4m3": 0x7E, "e5m2": 0x7B}
HALVES = np.arange(65536, dtype=np.uint32)
FLOATS = (
    np.arange(65536, dtype=np.uint32)[:, None] << np.uint32(16)
    | np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
).reshape(-1)


def value(form: str, code: int) -> Fraction:
    """Value of a finite code without its sign."""
    bits, bias = (3, 7) if form == "e4m3" else (2, 15)
    exponent, fraction = code >> bits, code & (1 << bits) - 1
    if exponent == 0:
        return Fraction(fraction) * Fraction(2) ** (1 - bias - bits)
    return Fraction((1 << bits) + fraction) * Fraction(2) ** (exponent - bias - bits)


def narrowed(form: str, values: Any, relu: bool) -> Any:
    """Codes of float32 values: the nearer neighbour, of two the even one."""
    largest = LARGEST[form]
    exact = [value(form, code) for code in range(largest + 1)]
    middles = np.array([float((a + b) / 2) for a, b in itertools.pairwise(exact)])
    with np.errstate(invalid="ignore"):
        size = np.abs(values.astype(np.float64))
    codes = np.searchsorted(middles, size, side="left")
    tied = size == np.append(middles, np.inf)[np.minimum(codes, largest)]
    codes = np.minimum(codes + (tied & (codes % 2 == 1)), largest)
    codes = np.where(np.signbit(values), 0 if relu else codes | 0x80, codes)
    return np.where(np.isnan(values), 0x7F, codes).astype(np.uint16)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_floats_to_8_bits(operate: Any, form: str, relu: bool) -> None:
    high, low = FLOATS.view(np.float32), FLOATS[::-1].copy().view(np.float32)
    opcode = f"cvt.rn.satfinite{'.relu' if relu else ''}.{form}x2.f32"
    got = operate(opcode, np.uint16, high, low)
    expected = narrowed(form, high, relu) << 8 | narrowed(form, low, relu)
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_halves_to_8_bits(operate: Any, form: str, relu: bool) -> None:
    packed = HALVES << np.uint32(16) | HALVES[::-1]
    opcode = f"cvt.rn{'.relu' if relu else ''}.satfinite.{form}x2.f16x2"
    got = operate(opcode, np.uint16, packed)
    codes = narrowed(form, HALVES.astype(np.uint16).view(np.float16).astype(np.float32), relu)
    assert np.array_equal(got, codes << 8 | codes[::-1])


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("form", ["e4m3", "e5m2"])
def test_8_bits_to_halves(operate: Any, form: str, relu: bool) -> None:
    codes = np.arange(65536, dtype=np.uint16)
    got = operate(f"cvt.rn{'.relu' if relu else ''}.f16x2.{form}x2", np.uint32, codes)
    halves = np.full(128, 0x7FFF, np.uint16)
    finite = LARGEST[form] + 1
    exact = np.array([float(value(form, code)) for code in range(finite)])
    halves[:finite] = exact.astype(np.float16).view(np.uint16)
    assert np.array_equal(halves[:finite].view(np.float16).astype(np.float64), exact)
    if form == "e5m2":
        halves[0x7C] = 0x7C00
    negative = np.where(halves == 0x7FFF, halves, 0 if relu else halves | np.uint16(0x8000))
    table = np.concatenate([halves, negative]).astype(np.uint32)
    assert np.array_equal(got, table[codes & 0xFF] | table[codes >> 8] << np.uint32(16))
