"""Sums of tensor cores, with the alignment and truncation that isa/matrices.py describes."""

from __future__ import annotations

import numpy as np

from astra_vgpu.isa.matrices import FRACTION_BITS, MIN_EXPONENT
from astra_vgpu.numpy_engine.dtypes import Array
from astra_vgpu.numpy_engine.rounding import float32_of

_NOTHING = -5000
"""Exponent of a zero: it takes no part in the alignment."""
_WARPS = 128
"""At once, for the sake of memory."""


def aligned_sums(a: Array, b: Array, c: Array, formats: tuple[str, str, str]) -> Array:
    """A [warps, m, k] times b [warps, k, n] plus c [warps, m, n], of float64, as float64."""
    parts = [
        _aligned(a[at : at + _WARPS], b[at : at + _WARPS], c[at : at + _WARPS], formats)
        for at in range(0, len(a), _WARPS)
    ]
    return np.concatenate(parts) if parts else c


def _aligned(a: Array, b: Array, c: Array, formats: tuple[str, str, str]) -> Array:
    terms = np.concatenate([a[:, :, :, None] * b[:, None, :, :], c[:, :, None, :]], axis=2)
    ea, eb, ec = (_exponents(x, form) for x, form in zip((a, b, c), formats, strict=True))
    exponents = (ea[:, :, :, None] + eb[:, None, :, :]).max(axis=2)
    top = np.clip(np.maximum(exponents, ec), -600, 600)
    unit = np.ldexp(1.0, FRACTION_BITS - top)
    total = np.trunc(terms * unit[:, :, None, :]).sum(axis=2)
    plain = terms.sum(axis=2)
    result = np.where(total == 0, np.where(plain == 0, plain, 0.0), total / unit)
    return np.where(np.isfinite(terms).all(axis=2), result, plain)


def _exponents(values: Array, form: str) -> Array:
    exponents = np.maximum(np.frexp(values)[1] - 1, MIN_EXPONENT[form])
    return np.where(values == 0, _NOTHING, exponents)


def cut_float32(value: Array) -> Array:
    """float64 cut to float32, but infinite where it is too large."""
    return np.where(np.abs(value) < 2.0**128, float32_of(value, "rz"), value.astype(np.float32))
