"""Layout of a tensor in its buffer: its elements by its strides, and what lies between them.

What lies between elements holds the run's poison before the call, as the guard bands around a
buffer do: neither may change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.spans import buffer_bytes as buffer_bytes
from astra_chat.tools.task.spans import used_bytes as used_bytes
from astra_chat.tools.types import ITEM_BYTES, Case

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
B = TypeVar("B", Bytes, Mask)


def poisoned(count_bytes: int, pattern: int) -> Bytes:
    """Bytes that hold the 16-bit pattern over and over."""
    return np.resize(np.full(-(-count_bytes // 2), pattern, np.uint16).view(np.uint8), count_bytes)


def background(arg: Arg, case: Case, pattern: int) -> Bytes:
    """The buffer of an argument before its elements are there: poison, and for an index the least
    legal number, since a kernel may read what lies between rows."""
    size = buffer_bytes(arg, case)
    if arg.index is None:
        return poisoned(size, pattern)
    least, _ = arg.index.bounds(arg.names_in(case))
    number = np.array([least], dtype=arg.dtype_of(case)).view(np.uint8)
    return np.resize(number, size)


def spread(arg: Arg, case: Case, content: Bytes, pattern: int) -> Bytes:
    """The buffer of an argument whose elements are `content`."""
    if _dense(arg, case):
        return content
    buffer = background(arg, case, pattern)
    view = elements_of(arg, case, buffer)
    view[...] = content.reshape(view.shape)
    return buffer


def gathered(arg: Arg, case: Case, buffer: B) -> tuple[B, B]:
    """The elements of a buffer, or their mask, and what lies between them; both flat."""
    if _dense(arg, case):
        return buffer, buffer[:0]
    between = np.ones(len(buffer), np.bool_)
    elements_of(arg, case, between)[...] = False
    return elements_of(arg, case, buffer).reshape(-1), buffer[between]


def changed_between(arg: Arg, case: Case, buffer: Bytes, pattern: int) -> Mask:
    """Which bytes between the elements do not hold what was there before the call."""
    if _dense(arg, case):
        return np.zeros(0, np.bool_)
    before = gathered(arg, case, background(arg, case, pattern))[1]
    changed: Mask = gathered(arg, case, buffer)[1] != before
    return changed


@dataclass(frozen=True)
class Gap:
    """Bytes between elements that repeat: [*extents, width], with these strides, from an offset."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    width: int


def gaps(arg: Arg, case: Case) -> list[Gap]:
    """All that lies between the elements of a buffer and after its rows, in bytes."""
    item, shape = ITEM_BYTES[arg.dtype_of(case)], arg.shape_of(case)
    if not math.prod(shape):
        return []
    axes = sorted(zip(arg.strides_of(case), shape, strict=True), reverse=True)
    found = []
    for at, (stride, _) in enumerate(axes):
        inner = max((s * extent for s, extent in axes[at + 1 :]), default=1)
        if stride > inner:
            strides, extents = zip(*axes[: at + 1], strict=True)
            places = tuple(one * item for one in strides)
            found.append(Gap(tuple(extents), places, inner * item, (stride - inner) * item))
    return found


def _dense(arg: Arg, case: Case) -> bool:
    """Whether elements lie one after the other, in the order of their indices."""
    if arg.strides is None:
        return True
    dense = 1
    shape, strides = arg.shape_of(case), arg.strides_of(case)
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if stride != dense:
            return not math.prod(shape)
        dense *= extent
    return True


def elements_of(arg: Arg, case: Case, buffer: B) -> B:
    """A view of the elements' bytes, [*shape, item]."""
    item = ITEM_BYTES[arg.dtype_of(case)]
    places: list[int] = [stride * item for stride in arg.strides_of(case)]
    view: B = as_strided(buffer, (*arg.shape_of(case), item), (*places, 1))
    return view
