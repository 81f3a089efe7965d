"""float64 arithmetic in the directed rounding modes: few kernels use it, so exact and slow.

Each lane's result to nearest is compared with the exact one, a Fraction, and moved by one step
where the mode wants the other neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from astra_vgpu.numpy_engine import rounding
from astra_vgpu.numpy_engine.dtypes import Array

Function = Callable[..., Array]
Excess = Callable[..., Fraction | int]
"""(near, operands): a number of the sign of the exact result minus `near`, which is finite."""


def _directed(near: Function, excess: Excess, sums: bool = False) -> Callable[[str], Function]:
    """sums: an exact 0 of opposite parts is -0 where the mode is down."""

    def of(mode: str) -> Function:
        def compute(*operands: Array) -> Array:
            parts = np.broadcast_arrays(*operands)
            start = np.asarray(near(*parts), np.float64)
            lanes = zip(start.flat, *(part.flat for part in parts), strict=True)
            signs = np.array([_sign(excess, *map(float, lane)) for lane in lanes])
            signs = signs.reshape(start.shape)
            result = _stepped(start, signs, mode)
            if sums and mode == "rm":
                product = parts[0] if len(parts) == 2 else parts[0] * parts[1]
                down = rounding.zero_down(result, product, parts[-1])
                result = np.where((start == 0) & (signs == 0), down, result)
            return np.asarray(result)

        return compute

    return of


def _stepped(near: Array, signs: Array, mode: str) -> Array:
    """signs: of the exact results minus the near ones."""
    down = np.where(signs < 0, np.nextafter(near, -np.inf), near)
    up = np.where(signs > 0, np.nextafter(near, np.inf), near)
    if mode != "rz":
        return down if mode == "rm" else up
    positive = (near > 0) | ((near == 0) & (signs > 0))
    return np.where(positive, down, up)


def _sign(excess: Excess, near: float, *operands: float) -> int:
    if not all(map(math.isfinite, operands)) or math.isnan(near):
        return 0
    if math.isinf(near):
        return _towards_zero(near, operands)
    difference = excess(*map(Fraction, (near, *operands)))
    return (difference > 0) - (difference < 0)


def _towards_zero(near: float, operands: tuple[float, ...]) -> int:
    """An overflow is above the exact result, unless the operand that is divided by is 0."""
    if operands[-1] == 0 and len(operands) < 3:
        return 0
    return -1 if near > 0 else 1


def _quotient(near: Fraction, a: Fraction, b: Fraction) -> Fraction | int:
    return (a - near * b) * (1 if b > 0 else -1) if b else 0


EXACT: dict[str, Callable[[str], Function]] = {
    "add": _directed(np.add, lambda near, a, b: a + b - near, sums=True),
    "mul": _directed(np.multiply, lambda near, a, b: a * b - near),
    "fma": _directed(rounding.fma64, lambda near, a, b, c: a * b + c - near, sums=True),
    "div": _directed(np.divide, _quotient),
    "rcp": _directed(np.reciprocal, lambda near, b: _quotient(near, Fraction(1), b)),
    "sqrt": _directed(np.sqrt, lambda near, a: a - near * near),
}
"""Exact functions by opcode family: (mode) -> function of float64 arrays."""
EXACT["sub"] = lambda mode: lambda a, b: EXACT["add"](mode)(a, np.negative(b))
EXACT["mad"] = EXACT["fma"]


def of_integer(a: Array, mode: str) -> Array:
    """Integers of any width to float64."""
    near = a.astype(np.float64)
    if mode == "rn" or a.dtype.itemsize < 8:
        return near
    signs = [int(exact) - int(value) for exact, value in zip(a.flat, near.flat, strict=True)]
    return _stepped(near, np.sign(np.array(signs, object)).astype(int).reshape(a.shape), mode)
