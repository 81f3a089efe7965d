"""Numbers that a candidate knows by heart: what its kernels and its launcher compare with.

A kernel may be right on all that is drawn at random and wrong for one number of tokens, one stride
or one value. Whatever chooses such a way has to compare with a number, which stands in its code.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.host_numbers import HostNumber, object_numbers, source_numbers
from astra_chat.tools.check.ptx_numbers import PtxNumber, ptx_numbers
from astra_chat.tools.known import KnownNumbers, Rest

LARGEST_SIZE = 2**31
"""No extent, stride or index beyond is ever tried."""
SMALL = 64
"""Sizes up to this, and powers of two, are met by cases that are drawn for other reasons: they are
tried last."""
TRIVIAL = 2
"""Sizes up to this are in all drawn cases."""
STEPS = ((0, 2), (1, 1), (2, 0), (-1, -1))
"""What is added to a single number and to a bound, in the order in which that is tried."""
LEAST_DIVISOR = 16
"""Rests of smaller divisors are met by chance."""
MOST_SIZES, MOST_VALUES = 120, 64


def known_numbers(built: Build) -> KnownNumbers:
    """The numbers of a build: of its PTX, of its preprocessed source and of its host object."""
    device = ptx_numbers(built.ptx.read_text(errors="replace"))
    expanded = built.folder / "kernel.host.i"
    text = expanded.read_text() if expanded.is_file() else ""
    content = built.object.read_bytes() if built.object.is_file() else b""
    return gathered(device, [*source_numbers(text), *object_numbers(content)])


def gathered(device: Iterable[PtxNumber], host: Iterable[HostNumber]) -> KnownNumbers:
    """Numbers of kernels and of host code, in the order in which they are tried."""
    found = list(dict.fromkeys(device))
    on_host = list(dict.fromkeys(host))
    # What only the number of a thread is compared with, says nothing of a call.
    telling = [one for one in found if one.sources != {"thread"}]
    compared = [one for one in on_host if one.compared]
    return KnownNumbers(
        sizes=tuple(_in_order(_sizes(telling, on_host)))[:MOST_SIZES],
        rests=tuple(dict.fromkeys(_rests(telling, compared)))[:MOST_VALUES],
        values=tuple(_unique(_values(telling, on_host)))[:MOST_VALUES],
        bits=tuple(dict.fromkeys(_bits(telling)))[:MOST_VALUES],
    )


def _sizes(device: list[PtxNumber], host: list[HostNumber]) -> Iterator[tuple[int, bool]]:
    """Each with whether it is known to be a bound."""
    for one in device:
        if not one.target.modulus and not one.target.floating:
            yield int(one.target.value), one.ordered
    for also in sorted(host, key=lambda one: not one.compared):
        if not also.modulus and float(also.value).is_integer():
            yield int(also.value), also.ordered
    for one in device:  # a bound of a size that is compared as a float
        if one.target.floating and float(one.target.value).is_integer():
            yield int(one.target.value), one.ordered


def _in_order(sizes: Iterable[tuple[int, bool]]) -> Iterator[int]:
    """Unusual ones first, each with its neighbours. Beyond a bound of places, which count from
    zero, lie extents from two above it."""
    bounds = dict[int, bool]()
    for size, ordered in sizes:
        if TRIVIAL < size <= LARGEST_SIZE:
            bounds[size] = bounds.get(size, False) or ordered
    classes: tuple[list[int], ...] = ([], [], [])
    for size in bounds:
        usual = size & (size - 1) == 0
        classes[2 if size <= SMALL else 1 if usual else 0].append(size)
    found = dict[int, None]()
    for some in classes:
        for single, bound in STEPS:
            found |= dict.fromkeys(size + (bound if bounds[size] else single) for size in some)
    return iter(found)


def _rests(device: list[PtxNumber], host: list[HostNumber]) -> Iterator[Rest]:
    for one in device:
        rest = int(one.target.value)
        if LEAST_DIVISOR < one.target.modulus and 0 <= rest < one.target.modulus:
            yield rest, one.target.modulus
    for also in host:
        if LEAST_DIVISOR < also.modulus and 0 <= also.value < also.modulus:
            yield int(also.value), also.modulus


def _values(device: list[PtxNumber], host: list[HostNumber]) -> Iterator[float]:
    """Floats of kernels first, then those of host code, which choose by scalars, then integers."""
    for one in device:
        if one.target.floating and math.isfinite(one.target.value):
            yield one.target.value
    for also in host:
        if also.floating and math.isfinite(also.value):
            yield also.value
    for one in device:
        if not one.target.floating and not one.target.modulus and "parameter" not in one.sources:
            if TRIVIAL < abs(one.target.value) < LARGEST_SIZE:
                yield one.target.value


def _bits(device: list[PtxNumber]) -> Iterator[int]:
    for one in device:
        if not one.target.floating and one.sources - {"parameter", "block", "thread"}:
            value = int(one.target.value)
            if abs(value) > TRIVIAL:
                yield value % 2 ** min(max(one.target.bits, 16), 64)


def _unique(values: Iterable[float]) -> Iterator[float]:
    """Each finite number once; zero is drawn anyway."""
    return iter(dict.fromkeys(float(one) for one in values if one and math.isfinite(one)))
