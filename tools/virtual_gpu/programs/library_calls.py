"""cuBLAS' products of matrices and cuRAND's host generators, answered with NumPy.

Sums of floats and halves are made in float32 (of doubles in float64), in another order than on a
GPU. Random numbers have cuRAND's distributions and are others than its own.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astra_chat.tools.virtual_gpu.memory.buffers import Buffer, Memory
from astra_chat.tools.virtual_gpu.types import Fault

ILLEGAL_ADDRESS = 700
_BF16 = 14
_TYPES: dict[int, Any] = {
    0: np.dtype(np.float32), 1: np.dtype(np.float64), 2: np.dtype(np.float16),
    3: np.dtype(np.int8), 10: np.dtype(np.int32), _BF16: np.dtype(np.uint16),
}  # fmt: skip
"""By cudaDataType_t; bf16 as its bits."""
_DOUBLE, _INT = 1, 10
Items = NDArray[Any]


class NotAnswered(Exception):
    """A form of a call that is not answered."""


@dataclass(frozen=True)
class _Matrix:
    """In columns that begin `pitch` elements apart."""

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
        item = _TYPES[self.type] if data.dtype == np.uint8 else np.dtype(f"V{self.item_bytes}")
        strides = (self.item_bytes, self.pitch * self.item_bytes)
        return np.ndarray((self.rows, self.columns), item, data, self.start, strides)

    @property
    def item_bytes(self) -> int:
        return int(_TYPES[self.type].itemsize)

    def values(self, dtype: Any) -> Items:
        stored = self.view(self.buffer.data)
        if self.type == _BF16:
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(dtype)

    def store(self, values: Items) -> None:
        if self.type == _BF16:
            values = _bf16(values.astype(np.float32))
        with np.errstate(all="ignore"):
            self.view(self.buffer.data)[:] = values.astype(_TYPES[self.type])
        if self.buffer.written is not None:
            self.view(self.buffer.written)[:] = np.ones(self.item_bytes, np.bool_).view(
                f"V{self.item_bytes}"
            )[0]


def _bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """To nearest, ties to even; NaNs stay NaNs."""
    raw = values.view(np.uint32)
    rounded = ((raw + ((raw >> 16) & 1) + 0x7FFF) >> 16).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def gemm(
    memory: Memory, call: str, words: Sequence[int], warned: Callable[[str, str], None]
) -> None:
    """C = alpha op(A) op(B) + beta C, in columns, for each of several matrices (cublas.c).

    warned: called with place and words where A or B were never written. Raises Fault for a matrix
    that no buffer holds whole, NotAnswered for types that are not known here.
    """
    m, n, k, count, turn_a, turn_b, scale, alpha_at, beta_at = words[:9]
    a, b, c = words[9:13], words[13:17], words[17:21]
    if not {scale, a[1], b[1], c[1]} <= _TYPES.keys():
        raise NotAnswered(f"{call} of these types")
    alpha, beta = _scalar(alpha_at, scale), _scalar(beta_at, scale)
    exact = np.float64 if {_DOUBLE, _INT} & {scale, c[1]} else np.float32
    shapes = {"A": (k, m) if turn_a else (m, k), "B": (n, k) if turn_b else (k, n), "C": (m, n)}

    def matrix(name: str, what: Sequence[int], number: int) -> _Matrix:
        return _placed(memory, call, name, shapes[name], what, number)

    for number in range(count):
        left, right = matrix("A", a, number), matrix("B", b, number)
        result = matrix("C", c, number)
        for each in (left, right) if k and alpha else ():
            _see_unwritten(each, warned)
        x, y = left.values(exact), right.values(exact)
        with np.errstate(all="ignore"):
            product = alpha * ((x.T if turn_a else x) @ (y.T if turn_b else y))
            result.store(product + beta * result.values(exact) if beta else product)


def _scalar(address: int, type_number: int) -> Any:
    dtype = _TYPES[type_number]
    return np.frombuffer(ctypes.string_at(address, dtype.itemsize), dtype)[0].item()


def _placed(
    memory: Memory, call: str, name: str, shape: tuple[int, int], what: Sequence[int], number: int
) -> _Matrix:
    """what: address, type, pitch, and elements from one matrix to the next."""
    first, type_number, pitch, apart = what
    rows, columns = shape
    size = int(_TYPES[type_number].itemsize)
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
    return _Matrix(call, name, buffer, address - buffer.address, rows, columns, type_number, pitch)


def _see_unwritten(matrix: _Matrix, warned: Callable[[str, str], None]) -> None:
    nbytes = (matrix.pitch * (matrix.columns - 1) + matrix.rows) * matrix.item_bytes
    if matrix.buffer.is_unwritten(matrix.start, nbytes):
        warned(
            f"{matrix.call}, {matrix.buffer.name}",
            f"uninitialized_read: {matrix.call} reads matrix {matrix.name}, which nothing wrote, at"
            f" offset {matrix.start} of {matrix.buffer.name} ({matrix.buffer.nbytes} bytes)",
        )


_DRAWS: tuple[tuple[Any, Callable[[np.random.Generator, int, float, float], Items]], ...] = (
    (np.uint32, lambda r, n, *_: r.integers(0, 1 << 32, n, np.uint32)),
    (np.uint64, lambda r, n, *_: r.integers(0, 1 << 64, n, np.uint64)),
    (np.float32, lambda r, n, *_: 1 - r.random(n, np.float32)),
    (np.float64, lambda r, n, *_: 1 - r.random(n)),
    (np.float32, lambda r, n, mean, sd: r.normal(mean, sd, n)),
    (np.float64, lambda r, n, mean, sd: r.normal(mean, sd, n)),
    (np.float32, lambda r, n, mean, sd: r.lognormal(mean, sd, n)),
    (np.float64, lambda r, n, mean, sd: r.lognormal(mean, sd, n)),
    (np.uint32, lambda r, n, mean, sd: r.poisson(mean, n)),
)
"""Type and numbers of each enum distribution of curand.c; uniform ones lie in (0, 1]."""


def random(memory: Memory, call: str, words: Sequence[int]) -> None:
    """Fills memory with random numbers that depend on seed and position only (curand.c).

    Raises Fault where no buffer holds them, unless they are for host memory.
    """
    what, count, seed, drawn, on_host, address = words[:6]
    mean, deviation = struct.unpack("<2d", struct.pack("<2q", *words[6:8]))
    dtype, draw = _DRAWS[what]
    nbytes = count * np.dtype(dtype).itemsize
    buffer = memory.find(address)
    if not on_host and (buffer is None or address + nbytes > buffer.address + buffer.nbytes):
        message = f"write of {nbytes} bytes at {memory.describe(address)}"
        raise Fault(
            "out_of_bounds", message, cuda_error=ILLEGAL_ADDRESS, where=f"host code, {call}"
        )
    generator = np.random.default_rng([seed % (1 << 64), drawn % (1 << 64), what])
    content = draw(generator, count, mean, deviation).astype(dtype).tobytes()
    ctypes.memmove(address, content, nbytes)
    if buffer is not None:
        buffer.mark_span(address - buffer.address, nbytes)
