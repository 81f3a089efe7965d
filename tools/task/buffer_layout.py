"""Layout of a tensor in its buffer: its elements by its strides, and what lies between them.

What lies between elements holds the run's poison before the call, as the guard bands around a
buffer do: neither may change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.spans import buffer_bytes as buffer_bytes
from astra_chat.tools.task.spans import used_bytes as used_bytes
from astra_chat.tools.types import ITEM_BYTES, Case

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
B = TypeVar("B", Bytes, Mask)


class _Strided(NamedTuple):
    """How elements lie in a buffer."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    @staticmethod
    def of(arg: Arg, case: Case) -> _Strided:
        return _Strided(*arg.layout_of(case), ITEM_BYTES[arg.dtype_of(case)])

    @property
    def dense(self) -> bool:
        """Whether they lie one after the other, in the order of their indices."""
        dense = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if stride != dense:
                return not math.prod(self.shape)
            dense *= extent
        return True

    def elements(self, buffer: B) -> B:
        """A view of the elements' bytes, [*shape, item]."""
        strides = (*(stride * self.item for stride in self.strides), 1)
        view: B = as_strided(buffer, (*self.shape, self.item), strides)
        return view

    def between(self, size: int) -> Mask:
        """Which bytes of a buffer of this size belong to no element."""
        between = np.ones(size, np.bool_)
        self.elements(between)[...] = False
        return between


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
    if (lie := _apart(arg, case)) is None:
        return content
    buffer = background(arg, case, pattern)
    view = lie.elements(buffer)
    view[...] = content.reshape(view.shape)
    return buffer


def gathered(arg: Arg, case: Case, buffer: B) -> tuple[B, B]:
    """The elements of a buffer, or their mask, and what lies between them; both flat."""
    if (lie := _apart(arg, case)) is None:
        return buffer, buffer[:0]
    return lie.elements(buffer).reshape(-1), buffer[lie.between(len(buffer))]


def elements_and_changes(arg: Arg, case: Case, buffer: Bytes, pattern: int) -> tuple[Bytes, Mask]:
    """The elements of a buffer, flat, and which bytes between them do not hold what was there
    before the call."""
    if (lie := _apart(arg, case)) is None:
        return buffer, np.zeros(0, np.bool_)
    between = lie.between(len(buffer))
    changed: Mask = buffer[between] != background(arg, case, pattern)[between]
    return lie.elements(buffer).reshape(-1), changed


def changed_between(arg: Arg, case: Case, buffer: Bytes, pattern: int) -> Mask:
    """Which bytes between the elements do not hold what was there before the call."""
    return elements_and_changes(arg, case, buffer, pattern)[1]


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


def _apart(arg: Arg, case: Case) -> _Strided | None:
    """Where anything lies between the elements, or they are in another order."""
    lie = None if arg.strides is None else _Strided.of(arg, case)
    return None if lie is None or lie.dense else lie


def elements_of(arg: Arg, case: Case, buffer: B) -> B:
    """A view of the elements' bytes, [*shape, item]."""
    return _Strided.of(arg, case).elements(buffer)
