"""Layout of a tensor in its buffer: rows one after the other, or with padding after each row.

Padding holds the run's poison before the call, as the guard bands around a buffer do: neither may
change.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from astra_chat.tools.task.folder import Arg
from astra_chat.tools.types import ITEM_BYTES, Case

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
B = TypeVar("B", Bytes, Mask)


def poisoned(count_bytes: int, pattern: int) -> Bytes:
    """Bytes that hold the 16-bit pattern over and over; an odd last byte is zero."""
    return np.resize(np.full(-(-count_bytes // 2), pattern, np.uint16).view(np.uint8), count_bytes)


def spread(arg: Arg, case: Case, content: Bytes, pattern: int) -> Bytes:
    """The buffer of an argument whose elements are `content`."""
    row_bytes, padding = _row(arg, case)
    if not padding:
        return content
    rows = len(content) // row_bytes
    buffer = poisoned(rows * (row_bytes + padding), pattern).reshape(rows, -1)
    buffer[:, :row_bytes] = content.reshape(rows, row_bytes)
    return buffer.reshape(-1)


def gathered(arg: Arg, case: Case, buffer: B) -> tuple[B, B]:
    """The elements of a buffer, or their mask, and what lies between the rows; both flat."""
    row_bytes, padding = _row(arg, case)
    if not padding:
        return buffer, buffer[:0]
    rows = buffer.reshape(-1, row_bytes + padding)
    return rows[:, :row_bytes].reshape(-1), rows[:, row_bytes:].reshape(-1)


def buffer_bytes(arg: Arg, case: Case) -> int:
    """Size of an argument's buffer, padding included."""
    row_bytes, padding = _row(arg, case)
    return arg.bytes_of(case) // row_bytes * (row_bytes + padding)


def _row(arg: Arg, case: Case) -> tuple[int, int]:
    """Bytes of a row, and of the padding after it."""
    item = ITEM_BYTES[arg.dtype_of(case)]
    row = arg.shape_of(case)[-1]
    return row * item, (arg.stride_of(case) - row) * item
