"""The error norm of an argument on a case, and which of its results are not the nearest values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from astra_chat.tools.check.floats import MIN_EXPONENT, Array, overflow_of, rounded, ulp
from astra_chat.tools.types import DTypeName

PART = 2**15
"""Elements that are looked at at a time."""


@dataclass(frozen=True)
class _Piece:
    """Some elements of an argument, few enough for a core's cache."""

    target: Array
    """What is expected where both are finite."""
    error: Array
    """How far off each of these is."""
    nearest: Array
    """What is expected where a 16-bit result has a nearest value."""
    off: int
    """How many of those are another value."""
    exact: Array
    """Which elements are exactly the expected ones; none unless inputs are zeros and ones."""

    @staticmethod
    def of(
        got: Array, expected: Array, dtype: DTypeName, binary: bool, coded: bool, flushed: float
    ) -> _Piece:
        kept = np.isfinite(got) & np.isfinite(expected) & (np.abs(expected) < overflow_of(dtype))
        nearest, off = off_nearest(got, expected, "float32" if coded else dtype)
        exact = kept & (got == expected) if binary else kept[:0]
        if kept.all():  # as nearly always: no copies
            target, error = expected, got - expected
        else:
            target, error = expected[kept], got[kept] - expected[kept]
        np.abs(error, out=error)
        if flushed:
            error = np.maximum(error - flushed, 0.0)
        nearest_of = expected if nearest.all() else expected[nearest]
        return _Piece(target, error, nearest_of, int(off.sum()), exact)

    def scaled(self, least: float, dtype: DTypeName) -> tuple[Array, Array]:
        """The errors, and half an ulp, in ulps of each element on a scale of at least `least`."""
        scale = ulp(np.maximum(np.abs(self.target), least), dtype)
        return self.error / scale, 0.5 * ulp(self.target, dtype) / scale


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
        pieces = [
            _Piece.of(got[part], expected[part], dtype, binary, coded, flushed)
            for part in parts(len(got))
        ]
        exact = np.concatenate([one.exact for one in pieces]) if binary and pieces else None
        count = sum(len(one.target) for one in pieces)
        if not count:
            return Norm(0.0, 0.0, 0, 1.0, exact=exact)
        least = max(_rms(*(one.target for one in pieces)), floor)
        errors, halves = zip(*(one.scaled(least, dtype) for one in pieces), strict=True)
        squares = [np.square(half) for half in halves]
        fourths = sum(float(np.sum(np.square(square))) for square in squares)
        return Norm(
            _rms(*errors),
            _rms(*halves),
            count,
            sum(float(np.sum(square)) for square in squares) ** 2 / fourths,
            sum(len(one.nearest) for one in pieces),
            sum(one.off for one in pieces),
            _different([one.nearest for one in pieces]),
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


def off_nearest(got: Array, expected: Array, dtype: DTypeName) -> tuple[Array, Array]:
    """Which elements of a 16-bit result have a nearest value, and which of these are another one.

    None of a float32 result: there the nearest value is the exception.
    """
    if dtype == "float32":
        nowhere = np.zeros(len(got), dtype=np.bool_)
        return nowhere, nowhere
    magnitude = np.abs(expected)
    with np.errstate(invalid="ignore"):
        nearest = (
            np.isfinite(got)
            & (magnitude >= 2.0 ** MIN_EXPONENT[dtype])
            & (magnitude < overflow_of(dtype))
        )
    return nearest, nearest & (got != rounded(expected, dtype))


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


def _different(values: Sequence[Array]) -> int:
    """How many different values there are to 11 bits, without sorting them."""
    seen = np.zeros(2**19, dtype=np.bool_)
    for one in values:
        seen[one.astype(np.float32).view(np.uint32) >> 13] = True
    return int(seen.sum())
