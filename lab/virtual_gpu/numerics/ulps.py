"""Distance of two results in units of the last place (ulp)."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from lab.virtual_gpu.numerics.inputs import Bits

_FLOATS = {
    "f16": (16, 0x7C00),
    "bf16": (16, 0x7F80),
    "f32": (32, 0x7F800000),
    "f64": (64, 0x7FF0000000000000),
}
"""Bits, and those of infinity."""
LOST = np.iinfo(np.int64).max
"""The distance where one of two is a NaN."""


def elements(bits: Bits, kind: str) -> Bits:
    """Raw bits as elements of the result's type: packed halves apart."""
    flat = np.ascontiguousarray(bits).ravel()
    return flat.view(np.uint16) if kind in ("f16", "bf16") else flat


def canonical(bits: Bits, kind: str) -> Bits:
    """Elements with all NaNs alike: PTX leaves their payloads open."""
    each = elements(bits, kind)
    if kind not in _FLOATS:
        return each
    return np.where(_is_nan(each, kind), each.dtype.type(~each.dtype.type(0)), each)


def checksums(bits: Bits, kind: str, size: int) -> NDArray[np.uint32]:
    """CRC-32 of every `size` canonical elements."""
    each = canonical(bits, kind)
    return np.array(
        [zlib.crc32(each[at : at + size].tobytes()) for at in range(0, each.size, size)], "u4"
    )


def distance(ours: Bits, theirs: Bits, kind: str) -> NDArray[np.int64]:
    """Floats between two floats of a type, signed: ours less theirs. Of equal results, and of two
    NaNs, 0; between a NaN and a number LOST."""
    a, b = elements(ours, kind), elements(theirs, kind)
    lost, both = _is_nan(a, kind) != _is_nan(b, kind), _is_nan(a, kind) & _is_nan(b, kind)
    apart = _place(a, kind) - _place(b, kind)
    return np.where(both, 0, np.where(lost, LOST, apart))


def worst_difference(ours: Bits, theirs: Bits, kind: str) -> float:
    """The largest difference of two numbers, neither infinite nor NaN."""
    a, b = (_values(elements(bits, kind), kind) for bits in (ours, theirs))
    finite = np.isfinite(a) & np.isfinite(b)
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0))


def _values(each: Bits, kind: str) -> NDArray[np.float64]:
    if kind == "bf16":
        wide = each.astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    form = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
    return np.asarray(each.view(form), np.float64)


def _is_nan(each: Bits, kind: str) -> NDArray[np.bool_]:
    width, infinity = _FLOATS[kind]
    size = each & each.dtype.type((1 << (width - 1)) - 1)
    return np.asarray(size > infinity)


def _place(each: Bits, kind: str) -> NDArray[np.int64]:
    """The float's place among all; both zeros have 0."""
    width, _ = _FLOATS[kind]
    size = (each & each.dtype.type((1 << (width - 1)) - 1)).astype(np.int64)
    return np.where(each >> each.dtype.type(width - 1) != 0, -size, size)
