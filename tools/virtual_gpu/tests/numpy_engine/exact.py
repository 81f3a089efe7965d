"""Exact arithmetic for tests: any float as a Fraction, and one rounding to any binary format."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Binary:
    """An IEEE 754 binary format by its field widths."""

    exponent_bits: int
    fraction_bits: int

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def _bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)

    def is_nan(self, bits: int) -> bool:
        return bits & ~self.sign > self.infinity

    def is_finite(self, bits: int) -> bool:
        return bits & ~self.sign < self.infinity

    def value(self, bits: int) -> Fraction:
        """Value of finite bits."""
        magnitude = bits & ~self.sign
        exponent, fraction = (
            magnitude >> self.fraction_bits,
            magnitude & ((1 << self.fraction_bits) - 1),
        )
        if exponent:
            fraction |= 1 << self.fraction_bits
        power = max(exponent, 1) - self._bias - self.fraction_bits
        exact = Fraction(fraction) * Fraction(2) ** power
        return -exact if bits & self.sign else exact

    def round(self, exact: Fraction, mode: str = "rn", zero_sign: int = 0) -> int:
        """The bits of `exact` rounded once: rn to even, rz to zero, rm down, rp up."""
        negative = exact < 0 or (exact == 0 and bool(zero_sign))
        magnitude = abs(exact)
        sign = self.sign if negative else 0
        if magnitude == 0:
            return sign
        exponent = max(_log2_floor(magnitude), 1 - self._bias)
        ulp = Fraction(2) ** (exponent - self.fraction_bits)
        steps, rest = divmod(magnitude, ulp)
        steps = int(steps)
        up = {
            "rn": rest * 2 > ulp or (rest * 2 == ulp and steps % 2 == 1),
            "rz": False,
            "rm": negative and rest > 0,
            "rp": not negative and rest > 0,
        }[mode]
        steps += up
        bits = steps + ((exponent - 1 + self._bias) << self.fraction_bits)
        if bits >= self.infinity:
            away = mode == "rn" or (mode == "rm" and negative) or (mode == "rp" and not negative)
            bits = self.infinity if away else self.infinity - 1
        return sign | bits


def _log2_floor(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


F16, BF16, F32, F64 = Binary(5, 10), Binary(8, 7), Binary(8, 23), Binary(11, 52)


def float_of(bits: int, form: Binary) -> float:
    """Any bits of f16, bf16, f32 or f64 as a Python float."""
    if form is BF16:
        bits, form = bits << 16, F32
    code = {16: "<He", 32: "<If", 64: "<Qd"}[form.width]
    return float(struct.unpack("<" + code[2], struct.pack(code[:2], bits))[0])


def ulps_between(a: int, b: int, form: Binary) -> float:
    """Steps from one to the other among the format's values; NaN only matches NaN."""
    if form.is_nan(a) or form.is_nan(b):
        return 0 if form.is_nan(a) and form.is_nan(b) else math.inf
    ordered = [-(x & ~form.sign) if x & form.sign else x for x in (a, b)]
    return abs(ordered[0] - ordered[1])


def operand(values: Any, kind: str) -> Any:
    """float32 values as what an instruction of this type takes: halves are raw, bf16 cut off."""
    if kind == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    return values.astype(np.float64) if kind == "f64" else values
