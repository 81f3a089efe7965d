"""The error norm of an argument on a case, and which of its results are not the nearest values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from astra_chat.tools.check.floats import (
    MIN_EXPONENT,
    Array,
    beside_nearest,
    half_ulp,
    overflow_of,
)
from astra_chat.tools.types import DTypeName

PART = 2**15
"""Elements that are looked at at a time."""
LEAST, MOST = 2.0**-300, 2.0**300
"""Between these neither squares nor their sum lose anything to the ends of float64."""


@dataclass(frozen=True)
class _Piece:
    """Some elements of an argument, few enough for a core's cache."""

    got: Array
    expected: Array
    kept: Array | None
    """At which both are finite, as booleans; None where all are, as nearly always."""
    squares: float
    """Sum of the squares of what is expected there."""
    count: int

    @staticmethod
    def of(got: Array, expected: Array, dtype: DTypeName) -> _Piece:
        kept, size = None, np.abs(expected)
        finite = _apart(got, expected).max(initial=0.0) < math.inf
        if not (finite and size.max(initial=0.0) < overflow_of(dtype)):
            kept = np.isfinite(got) & np.isfinite(expected) & (size < overflow_of(dtype))
            size = size[kept]
        return _Piece(got, expected, kept, _sum_of_squares([size]), len(size))

    @property
    def sizes(self) -> Array:
        return np.abs(self.expected if self.kept is None else self.expected[self.kept])

    @property
    def exact(self) -> Array:
        """Which elements are exactly the expected ones."""
        same: Array = self.got == self.expected
        return same if self.kept is None else same & self.kept

    def errors(self, least: float, dtype: DTypeName, coded: bool, flushed: float) -> _Errors:
        """Errors on a scale of at least `least`."""
        got, expected = self.got, self.expected
        if self.kept is not None:
            got, expected = got[self.kept], expected[self.kept]
        error, half, off = _apart(got, expected), half_ulp(expected, dtype), 0
        nearest = expected[:0]
        if has_nearest("float32" if coded else dtype):
            normal = np.abs(expected) >= 2.0 ** MIN_EXPONENT[dtype]
            beside = beside_nearest(got, expected, dtype, error, half)
            nearest = expected if normal.all() else expected[normal]
            off = int(np.count_nonzero(beside & normal))
        if flushed:
            error = np.maximum(error - flushed, 0.0)
        scale = np.maximum(half, half_ulp(np.array([least]), dtype))
        half /= scale
        square = np.square(half)
        largest = float(np.divide(error, scale, out=error).max(initial=0.0))
        # Squares of what is larger or smaller would leave float64.
        unit = 1.0 if LEAST < largest < MOST else largest or 1.0
        return _Errors(
            unit,
            _sum_of_squares([error if unit == 1.0 else error / unit]),
            float(np.sum(square)),
            _sum_of_squares([square]),
            nearest,
            off,
        )


class _Errors(NamedTuple):
    """Sums over a piece, in half ulps."""

    unit: float
    """What `squares` is in units of: 1, or the largest error."""
    squares: float
    """Sum of the squared errors."""
    halves: float
    """Sum of the squares of half an ulp."""
    fourths: float
    """Sum of their squares."""
    nearest: Array
    """What is expected where a 16-bit result has a nearest value."""
    off: int
    """How many of those are another value."""


@dataclass(frozen=True)
class Norm:
    """Error of one argument on one case."""

    ulps: float
    """Root mean square of the errors, in ulps."""
    half_ulps: float
    """Norm of a result that is off by half an ulp everywhere, in ulps: of correct rounding."""
    count: int
    """Elements that were compared."""
    resting: float
    """How many elements the norm rests on: one large among many small ones makes it one."""
    nearest: int = 0
    """Elements of a 16-bit result that are normal numbers: each has a nearest value."""
    off: int = 0
    """Elements that have a nearest value and are another one."""
    values: int = 0
    """Different values, to 11 bits, among the expected ones that have a nearest value."""
    exact: Array | None = None
    """Elements whose result is exactly the expected one, as booleans; None unless inputs are zeros
    and ones."""
    few: tuple[Array, Array] | None = None
    """Got and expected where that is less than FEW, those of further seeds among them."""
    floor: float = 0.0
    """Rms of what is expected on further seeds."""

    @staticmethod
    def of(
        got: Array,
        expected: Array,
        dtype: DTypeName,
        binary: bool = False,
        floor: float = 0.0,
        coded: bool = False,
        flushed: float = 0.0,
    ) -> Norm:
        """Norm over the elements at which both are finite, on a scale of at least `floor`.

        `got` and `expected` are float64. What codes mean is no value of their dtype, so there is no
        nearest one. An error up to `flushed` is none.
        """
        pieces = [_Piece.of(got[part], expected[part], dtype) for part in parts(len(got))]
        exact = np.concatenate([one.exact for one in pieces]) if binary and pieces else None
        count = sum(one.count for one in pieces)
        if not count:
            return Norm(0.0, 0.0, 0, 1.0, exact=exact)
        total = sum(one.squares for one in pieces)
        within = LEAST < total < MOST
        rms = math.sqrt(total / count) if within else _rms(*(one.sizes for one in pieces))
        least = max(rms, floor)
        found = [one.errors(least, dtype, coded, flushed) for one in pieces]
        unit = max(one.unit for one in found)
        squares = sum(one.squares * (one.unit / unit) ** 2 for one in found)
        halves = sum(one.halves for one in found)
        return Norm(
            0.5 * unit * math.sqrt(squares / count),
            0.5 * math.sqrt(halves / count),
            count,
            halves**2 / sum(one.fourths for one in found),
            sum(len(one.nearest) for one in found),
            sum(one.off for one in found),
            _different([one.nearest for one in found]),
            exact,
        )

    def and_(
        self,
        got: Array,
        expected: Array,
        dtype: DTypeName,
        coded: bool = False,
        flushed: float = 0.0,
    ) -> Norm:
        """Returns the norm with the results on a further seed added, where there were few."""
        if self.few is None:
            return self
        got, expected = (np.concatenate(p) for p in zip(self.few, (got, expected), strict=True))
        finite = expected[np.isfinite(expected) & (np.abs(expected) < overflow_of(dtype))]
        return replace(
            Norm.of(got, expected, dtype, coded=coded, flushed=flushed),
            exact=self.exact,
            few=(got, expected),
            floor=_rms(finite),
        )

    @property
    def share(self) -> float:
        return self.off / max(1, self.nearest)


def off_nearest(got: Array, expected: Array, dtype: DTypeName) -> Array:
    """Which elements of a 16-bit result have a nearest value and are another one. None of a float32
    result: there the nearest value is the exception."""
    if not has_nearest(dtype):
        return np.zeros(len(got), dtype=np.bool_)
    magnitude = np.abs(expected)
    with np.errstate(invalid="ignore"):
        nearest = (
            np.isfinite(got)
            & (magnitude >= 2.0 ** MIN_EXPONENT[dtype])
            & (magnitude < overflow_of(dtype))
        )
    return nearest & beside_nearest(got, expected, dtype)


def has_nearest(dtype: DTypeName) -> bool:
    """Whether results of a dtype are held against their nearest values."""
    return dtype != "float32"


def _apart(got: Array, expected: Array) -> Array:
    with np.errstate(invalid="ignore", over="ignore"):
        error: Array = got - expected
    return np.abs(error, out=error)


def parts(count: int) -> Iterator[slice]:
    """So many elements, as parts that fit a core's cache: arrays of the whole of a large result
    cost several times as much."""
    return (slice(start, start + PART) for start in range(0, count, PART))


def _rms(*values: Array) -> float:
    """Root mean square of all elements, whatever the magnitude."""
    largest = max((float(np.max(np.abs(one), initial=0.0)) for one in values), default=0.0)
    if largest == 0 or not math.isfinite(largest):
        return largest
    total = sum(float(np.sum(np.square(one / largest))) for one in values)
    return largest * math.sqrt(total / sum(map(len, values)))


def _sum_of_squares(values: Sequence[Array]) -> float:
    """The sum in one pass; a product of vectors would wake the threads of the linear algebra."""
    with np.errstate(over="ignore", invalid="ignore"):
        return sum(float(np.einsum("i,i->", one, one)) for one in values)


def _different(values: Sequence[Array]) -> int:
    """How many different values there are to 11 bits, without sorting them."""
    seen = np.zeros(2**19, dtype=np.bool_)
    for one in values:
        at = one.astype(np.float32).view(np.uint32) >> 13
        seen[at.astype(np.intp)] = True  # else NumPy converts them one by one
    return int(np.count_nonzero(seen))
