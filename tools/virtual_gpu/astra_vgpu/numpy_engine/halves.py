"""f16 and bf16 arithmetic, single and packed: computed wider, rounded once.

Sums and products go through float32: 24 bits are at least 2 * 11 + 2, so the second rounding is
innocuous, and a product of bf16 that float32 cannot hold is below half of bf16's least value. FMA
goes through float64, rounded to odd where that matters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from astra_vgpu.numpy_engine import floats, rounding
from astra_vgpu.numpy_engine.code import Code, Step, elementwise, family
from astra_vgpu.numpy_engine.dtypes import HALVES, Array

Function = Callable[..., Array]


@dataclass(frozen=True)
class Format:
    """How raw uint16 become float32 and back."""

    widen: Callable[[Array], Array]
    narrow: Callable[[Array], Array]


_FLOAT16 = Format(rounding.widen_half, rounding.narrow_half)
_BFLOAT16 = Format(rounding.widen_bfloat, rounding.narrow_bfloat)


def format_of(type_name: str) -> Format:
    return _BFLOAT16 if type_name.startswith("bf") else _FLOAT16


def is_packed(type_name: str) -> bool:
    return type_name.endswith("x2")


def split(pair: Array) -> tuple[Array, Array]:
    """uint32 to its lower and upper uint16."""
    return pair.astype(np.uint16), (pair >> np.uint32(16)).astype(np.uint16)


def join(low: Array, high: Array) -> Array:
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))


def on_halves(type_name: str, compute: Function) -> Function:
    """A function of uint16 as one of the type: the same, or both halves of uint32."""
    if not is_packed(type_name):
        return compute

    def packed(*pairs: Array) -> Array:
        result: Array = compute(*map(_both, pairs))
        return np.ascontiguousarray(result).view(np.uint32)[..., 0]

    return packed


def _both(pair: Array) -> Array:
    """uint32 as uint16 [..., 2]: both halves where they lie."""
    return np.ascontiguousarray(pair).view(np.uint16).reshape(*pair.shape, 2)


def rounded(type_name: str, compute: Function) -> Function:
    """A function of float32 (or, for an exact result, to float64) as one of the type."""
    form = format_of(type_name)
    return on_halves(
        type_name, lambda *values: form.narrow(compute(*(form.widen(v) for v in values)))
    )


def _finish(code: Code, compute: Function) -> Step:
    """compute: float32 to float32, or to float64 where more bits are needed."""
    code.option("rn", default="rn")
    flushes = code.flag("ftz")
    saturates, relu = code.flag("sat"), code.flag("relu")
    type_name = code.type(*HALVES)
    if flushes:
        compute = _flushing(compute, type_name)
    if saturates:
        return elementwise(code, rounded(type_name, _after(rounding.saturate, compute)), type_name)
    if relu:
        return elementwise(code, rounded(type_name, _after(_relu, compute)), type_name)
    return elementwise(code, rounded(type_name, compute), type_name)


def _after(outer: Function, inner: Function) -> Function:
    return lambda *values: outer(inner(*values))


def _relu(value: Array) -> Array:
    """Negative values become +0; NaN stays."""
    return np.where(value <= 0, value.dtype.type(0), value)


def _flushing(compute: Function, type_name: str) -> Function:
    """A result is flushed that would still be below the smallest normal number when rounded."""
    least = 2.0**-126 if type_name.startswith("bf") else 2.0**-14
    rounded_least = least * (1 - 2.0 ** (-9 if type_name.startswith("bf") else -12))

    def flush(value: Array, smallest: float) -> Array:
        return np.where(np.abs(value) < smallest, np.copysign(value.dtype.type(0), value), value)

    return lambda *values: flush(compute(*(flush(v, least) for v in values)), rounded_least)


@family("add", "half")
def add(code: Code) -> Step:
    return _finish(code, np.add)


@family("sub", "half")
def sub(code: Code) -> Step:
    return _finish(code, np.subtract)


@family("mul", "half")
def mul(code: Code) -> Step:
    return _finish(code, np.multiply)


@family("fma", "half")
def fma(code: Code) -> Step:
    return _finish(code, lambda a, b, c: rounding.narrowing_fma(a, b, c, 10))


@family("neg", "half")
def neg(code: Code) -> Step:
    return _sign_bit(code, np.bitwise_xor, np.uint16(0x8000))


@family("abs", "half")
def absolute(code: Code) -> Step:
    return _sign_bit(code, np.bitwise_and, np.uint16(0x7FFF))


def _sign_bit(code: Code, compute: Function, mask: np.uint16) -> Step:
    if code.flag("ftz"):
        raise code.refuse(".ftz of halves")
    type_name = code.type(*HALVES)
    return elementwise(code, on_halves(type_name, lambda a: compute(a, mask)), type_name)


@family("min", "half")
def minimum(code: Code) -> Step:
    return _extreme(code, rounding.minimum)


@family("max", "half")
def maximum(code: Code) -> Step:
    return _extreme(code, rounding.maximum)


def _extreme(code: Code, compute: Function) -> Step:
    code.count(3)
    return _finish(code, floats.extreme_of(code, compute))


@family("ex2", "half")
def ex2(code: Code) -> Step:
    code.option("approx")
    return _finish(code, lambda a: np.exp2(a.astype(np.float64)))


@family("tanh", "half")
def tanh(code: Code) -> Step:
    code.option("approx")
    return _finish(code, floats.tanh)
