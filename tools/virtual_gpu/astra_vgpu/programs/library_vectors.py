"""cuBLAS' operations on vectors (level 1), answered with NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from astra_vgpu.memory.buffers import Memory
from astra_vgpu.programs.library_operands import (
    ILLEGAL_ADDRESS,
    TYPES,
    Items,
    Matrix,
    placed,
    scalar,
    see_unwritten,
)
from astra_vgpu.types import Fault

Warned = Callable[[str, str], None]
_CHANGED: dict[str, Callable[[Items, Items, Any], tuple[Items, Items]]] = {
    "axpy": lambda x, y, alpha: (x, alpha * x + y),
    "scal": lambda x, y, alpha: (alpha * x, y),
    "copy": lambda x, y, alpha: (x, x),
    "swap": lambda x, y, alpha: (y, x),
}
"""Both vectors afterwards."""
_FOUND: dict[str, Callable[[Items, Items], Any]] = {
    "dot": lambda x, y: x @ y,
    "nrm2": lambda x, y: np.sqrt(x @ x),
    "asum": lambda x, y: np.abs(x).sum(),
    "amax": lambda x, y: np.argmax(np.abs(x)) + 1,
    "amin": lambda x, y: np.argmin(np.abs(x)) + 1,
}
_CHANGES_X = frozenset({"scal", "swap"})
_READS_Y = frozenset({"axpy", "swap", "dot"})


def vector(memory: Memory, call: str, words: Sequence[int], warned: Warned) -> None:
    """One of these operations (cublas_vectors.c): cublasSaxpy, cublasIdamax.

    warned: called with place and words where an operand was never written. Raises Fault for a
    vector that no buffer holds whole.
    """
    type_number, count, x_at, x_apart, y_at, y_apart, alpha_at, result_at, on_device = words
    what = call[-4:] if call[-4:] in _CHANGED or call[-4:] in _FOUND else "dot"

    def operand(name: str, address: int, apart: int) -> Matrix:
        place = (address, type_number, apart, 0)
        one = placed(memory, call, name, (1, count), place, 0)
        if count and (name == "x" or what in _READS_Y):
            see_unwritten(one, warned)
        return one

    x = operand("x", x_at, x_apart)
    y = operand("y", y_at, y_apart) if y_at else x
    old_x, old_y = (each.values(np.float64).reshape(-1) for each in (x, y))
    with np.errstate(all="ignore"):
        if change := _CHANGED.get(what):
            alpha = scalar(alpha_at, type_number) if alpha_at else None
            after_x, after_y = change(old_x, old_y, alpha)
            if what in _CHANGES_X:
                x.store(after_x.reshape(1, -1))
            if y is not x:
                y.store(after_y.reshape(1, -1))
            return
        found = _FOUND[what](old_x, old_y) if count else 0
    dtype = np.dtype(np.int32) if what in ("amax", "amin") else TYPES[type_number]
    _give(memory, call, np.asarray(found).astype(dtype).tobytes(), result_at, bool(on_device))


def _give(memory: Memory, call: str, content: bytes, address: int, on_device: bool) -> None:
    buffer = memory.find(address)
    if on_device:
        if buffer is None or address + len(content) > buffer.address + buffer.nbytes:
            message = f"write of {len(content)} bytes at {memory.describe(address)}"
            raise Fault(
                "out_of_bounds", message, cuda_error=ILLEGAL_ADDRESS, where=f"host code, {call}"
            )
        buffer.mark_span(address - buffer.address, len(content))
    ctypes.memmove(address, content, len(content))
