"""Matrices and vectors in device memory, as calls of cuBLAS name them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.memory.buffers import Buffer, Memory
from astra_vgpu.types import Fault

ILLEGAL_ADDRESS = 700
_BF16 = 14
TYPES: dict[int, Any] = {
    0: np.dtype(np.float32),
    1: np.dtype(np.float64),
    2: np.dtype(np.float16),
    3: np.dtype(np.int8),
    10: np.dtype(np.int32),
    _BF16: np.dtype(np.uint16),
}
"""NumPy dtypes by cudaDataType_t; bf16 as its bits."""
DOUBLE, INT = 1, 10
Items = NDArray[Any]


class NotAnswered(Exception):
    """A form of a call that is not answered."""


@dataclass(frozen=True)
class Matrix:
    """Matrix in columns that begin `pitch` elements apart."""

    call: str
    name: str
    buffer: Buffer
    start: int
    rows: int
    columns: int
    type: int
    pitch: int

    def view(self, data: Items) -> Items:
        """Its part of a buffer's bytes, or of one-byte flags of these: [rows, columns]."""
        item = TYPES[self.type] if data.dtype == np.uint8 else np.dtype(f"V{self.item_bytes}")
        strides = (self.item_bytes, self.pitch * self.item_bytes)
        return np.ndarray((self.rows, self.columns), item, data, self.start, strides)

    @property
    def item_bytes(self) -> int:
        return int(TYPES[self.type].itemsize)

    def values(self, dtype: Any) -> Items:
        stored = self.view(self.buffer.data)
        if self.type == _BF16:
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(dtype)

    def store(self, values: Items) -> None:
        if self.type == _BF16:
            values = _bf16(values.astype(np.float32))
        with np.errstate(all="ignore"):
            self.view(self.buffer.data)[:] = values.astype(TYPES[self.type])
        if self.buffer.written is not None:
            self.view(self.buffer.written)[:] = np.ones(self.item_bytes, np.bool_).view(
                f"V{self.item_bytes}"
            )[0]


def _bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Rounds to nearest, ties to even; NaNs stay NaNs."""
    raw = values.view(np.uint32)
    rounded = ((raw + ((raw >> 16) & 1) + 0x7FFF) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def scalar(address: int, type_number: int) -> Any:
    dtype = TYPES[type_number]
    return np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype)[0].item()


def placed(
    memory: Memory, call: str, name: str, shape: tuple[int, int], what: Sequence[int], number: int
) -> Matrix:
    """what: address, type, pitch, and elements from one matrix to the next."""
    first, type_number, pitch, apart = what
    rows, columns = shape
    size = int(TYPES[type_number].itemsize)
    address = first + number * apart * size
    nbytes = (pitch * (columns - 1) + rows) * size if rows and columns else 0
    buffer = memory.find(address)
    if nbytes and (buffer is None or address + nbytes > buffer.address + buffer.nbytes):
        words = (
            f"matrix {name} of {rows} x {columns} elements of {size} bytes, columns {pitch}"
            f" elements apart, does not lie in a buffer: {memory.describe(address)}"
        )
        raise Fault("out_of_bounds", words, cuda_error=ILLEGAL_ADDRESS, where=f"host code, {call}")
    if buffer is None:  # an empty one may be anywhere
        buffer = Buffer(address, 0, "", np.zeros(0, np.uint8))
    return Matrix(call, name, buffer, address - buffer.address, rows, columns, type_number, pitch)


def see_unwritten(matrix: Matrix, warned: Callable[[str, str], None]) -> None:
    nbytes = (matrix.pitch * (matrix.columns - 1) + matrix.rows) * matrix.item_bytes
    if matrix.buffer.is_unwritten(matrix.start, nbytes):
        warned(
            f"{matrix.call}, {matrix.buffer.name}",
            f"uninitialized_read: {matrix.call} reads matrix {matrix.name}, which nothing wrote, at"
            f" offset {matrix.start} of {matrix.buffer.name} ({matrix.buffer.nbytes} bytes)",
        )
