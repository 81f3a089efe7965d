"""cvt from and to pairs of 8-bit floats: e4m3 (no infinity, up to 448) and e5m2 (up to 57,344).

To nearest even, denormals included; what is larger becomes the largest finite number, NaN 0x7F.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from astra_vgpu.numpy_engine.code import Code, Step
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.frame import Frame
from astra_vgpu.numpy_engine.halves import format_of, join

_NAN = 0x7F


@dataclass(frozen=True)
class Fp8Format:
    """An 8-bit format: of exponent and fraction."""

    fraction_bits: int
    largest: int
    """Code of the largest finite number."""

    @property
    def bias(self) -> int:
        return int((1 << (6 - self.fraction_bits)) - 1)

    @cached_property
    def values(self) -> Array:
        """Values of the codes 0 to `largest`: float64, ascending."""
        codes = np.arange(self.largest + 1)
        exponent, fraction = codes >> self.fraction_bits, codes & (1 << self.fraction_bits) - 1
        normal = exponent > 0
        scaled = np.where(normal, fraction + (1 << self.fraction_bits), fraction).astype(np.float64)
        power = np.maximum(exponent, 1) - self.bias - self.fraction_bits
        return np.asarray(np.ldexp(scaled, power))

    def narrow(self, a: Array, relu: bool) -> Array:
        """float32 or wider to codes, uint16."""
        size = np.abs(a).astype(np.float64)
        least = 1 - self.bias - self.fraction_bits
        unit = np.maximum(np.frexp(size)[1] - 1 - self.fraction_bits, least)
        near = np.ldexp(np.rint(np.ldexp(size, -unit)), unit)
        codes = np.minimum(np.searchsorted(self.values, near), self.largest).astype(np.uint16)
        negative = np.signbit(a)
        codes = np.where(negative, 0 if relu else codes | np.uint16(0x80), codes)
        return np.where(np.isnan(a), np.uint16(_NAN), codes).astype(np.uint16)

    @cached_property
    def halves(self) -> Array:
        """float16 of each of the 256 codes, raw: uint16."""
        finite = self.values.astype(np.float16).view(np.uint16)
        rest = np.full(127 - self.largest, 0x7FFF, np.uint16)
        if self.largest == 0x7B:
            rest = np.array([0x7C00, 0x7FFF, 0x7FFF, 0x7FFF], np.uint16)
        half = np.concatenate([finite, rest])
        return np.concatenate([half, np.where(half == 0x7FFF, half, half | np.uint16(0x8000))])


@cache
def form_of(name: str) -> Fp8Format:
    return Fp8Format(3, 0x7E) if name == "e4m3x2" else Fp8Format(2, 0x7B)


NAMES = ("e4m3x2", "e5m2x2")


def convert(code: Code) -> Step:
    """cvt.rn.satfinite{.relu}.f8x2.f32 d, high, low; .f8x2.f16x2 d, a; cvt.rn{.relu}.f16x2.f8x2."""
    code.option("rn")
    relu = code.flag("relu")
    narrows = code.flag("satfinite")
    form = form_of(code.option(*NAMES))
    if not narrows:
        return _widening(code, form, relu)
    source = code.type("f32", "f16x2")
    write = code.write(0, "b16")
    code.count(3 if source == "f32" else 2)
    if source == "f32":
        high, low = code.read(1, "f32"), code.read(2, "f32")
        return lambda f: write(f, _pair(form.narrow(high(f), relu), form.narrow(low(f), relu)))
    packed, widen = code.read(1, "b32"), format_of("f16").widen

    def step(f: Frame) -> None:
        raw = packed(f)
        high, low = (widen((raw >> np.uint32(s)).astype(np.uint16)) for s in (16, 0))
        write(f, _pair(form.narrow(high, relu), form.narrow(low, relu)))

    return step


def _pair(high: Array, low: Array) -> Array:
    return np.asarray(high << np.uint16(8) | low)


def _widening(code: Code, form: Fp8Format, relu: bool) -> Step:
    code.type("f16x2")
    code.count(2)
    write, packed = code.write(0, "b32"), code.read(1, "b16")
    table = form.halves
    if relu:
        table = np.where((table & 0x8000) != 0, np.uint16(0), table)
    return lambda f: write(
        f, join(table[packed(f) & np.uint16(0xFF)], table[packed(f) >> np.uint16(8)])
    )
