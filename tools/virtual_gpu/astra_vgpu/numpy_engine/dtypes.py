"""PTX types as NumPy dtypes. Registers hold raw bits; instructions choose how to read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.ptx.syntax import Immediate, type_bits

Array = NDArray[Any]
"""A value of all lanes of a batch: shape [blocks or 1, threads or 1], read by broadcasting."""

_UNSIGNED: dict[int, Any] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
_SIGNED: dict[int, Any] = {
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}
HALVES = frozenset({"f16", "f16x2", "bf16", "bf16x2"})
INTEGERS = frozenset("b8 b16 b32 b64 u8 u16 u32 u64 s8 s16 s32 s64".split())


def dtype_of(type_name: str) -> Any:
    """The dtype that holds a type; halves, alone or packed, are raw bits."""
    if type_name == "f32":
        return np.dtype(np.float32)
    if type_name == "f64":
        return np.dtype(np.float64)
    bits = type_bits(type_name)
    return _SIGNED[bits] if type_name.startswith("s") else _UNSIGNED[bits]


def unsigned(bits: int) -> Any:
    """The dtype of a register of this width; 1 is a predicate."""
    return _UNSIGNED[bits]


def bits_of(dtype: Any) -> int:
    return 1 if dtype == np.bool_ else int(dtype.itemsize) * 8


def as_type(value: Array, dtype: Any) -> Array:
    """Returns the same bits under another dtype of the same width."""
    return value if value.dtype is dtype else value.view(dtype)


def constant(immediate: Immediate, dtype: Any) -> Array | None:
    """The immediate as a value of all lanes, [1, 1]; None if the two cannot be combined."""
    bits = bits_of(dtype)
    if immediate.kind != "int" and bits != {"f32": 32, "f64": 64}[immediate.kind]:
        return None
    if dtype == np.bool_:
        return np.array([[bool(immediate.value)]])
    raw = np.array([[immediate.value % (1 << bits)]], dtype=_UNSIGNED[bits])
    value: Array = raw.view(dtype)
    return value


def resize(value: Array, dtype: Any) -> Array:
    """Integer bits cut, or extended by the sign of `value`'s own dtype, to another width."""
    if value.dtype.kind == "f":
        value = value.view(_UNSIGNED[bits_of(value.dtype)])
    signed_step = _SIGNED if value.dtype.kind == "i" else _UNSIGNED
    wide = value.astype(signed_step[bits_of(dtype)]) if bits_of(dtype) > 1 else value.astype(dtype)
    return wide.view(dtype)
