"""Bytes that an argument's buffer has, and those of them that its elements reach."""

from __future__ import annotations

import math

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import ITEM_BYTES, Case


def elements_spanned(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements of a buffer, what lies behind the last entry of an axis included."""
    if not math.prod(shape):
        return 0
    return max(extent * stride for extent, stride in zip(shape, strides, strict=True))


def buffer_bytes(arg: Arg, case: Case) -> int:
    """Size of an argument's buffer, what lies between and after rows included."""
    spanned = elements_spanned(*arg.layout_of(case))
    return spanned * ITEM_BYTES[arg.dtype_of(case)]


def used_bytes(arg: Arg, case: Case) -> int:
    """From the first element to the end of the last: nothing need follow the last row of a view."""
    shape, strides = arg.layout_of(case)
    if not math.prod(shape):
        return 0
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    return (last + 1) * ITEM_BYTES[arg.dtype_of(case)]
