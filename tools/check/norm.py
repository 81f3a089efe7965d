"""The error norm of an argument on a case, and which of its results are not the nearest values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from astra_chat.tools.check.floats import MIN_EXPONENT, Array, overflow_of, rounded, ulp
from astra_chat.tools.types import DTypeName


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
    ) -> Norm:
        """Norm over the elements at which both are finite, on a scale of at least `floor`.

        `got` and `expected` are float64. What codes mean is no value of their dtype, so there is no
        nearest one.
        """
        kept = np.isfinite(got) & np.isfinite(expected) & (np.abs(expected) < overflow_of(dtype))
        exact = kept & (got == expected) if binary else None
        target, error = expected[kept], np.abs(got[kept] - expected[kept])
        if not len(target):
            return Norm(0.0, 0.0, 0, 1.0, exact=exact)
        scale = ulp(np.maximum(np.abs(target), max(_rms(target), floor)), dtype)
        half = 0.5 * ulp(target, dtype) / scale
        resting = float(np.sum(half**2) ** 2 / np.sum(half**4))
        nearest, off = off_nearest(got, expected, "float32" if coded else dtype)
        return Norm(
            _rms(error / scale),
            _rms(half),
            len(target),
            resting,
            int(nearest.sum()),
            int(off.sum()),
            _different(expected[nearest]),
            exact,
        )

    def and_(self, got: Array, expected: Array, dtype: DTypeName, coded: bool = False) -> Norm:
        """Returns the norm with the results on a further seed added, where there were few."""
        if self.few is None:
            return self
        got, expected = (np.concatenate(p) for p in zip(self.few, (got, expected), strict=True))
        finite = expected[np.isfinite(expected) & (np.abs(expected) < overflow_of(dtype))]
        return replace(
            Norm.of(got, expected, dtype, coded=coded),
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


def _rms(values: Array) -> float:
    """Root mean square, whatever the magnitude."""
    largest = float(np.max(np.abs(values), initial=0.0))
    if largest == 0 or not math.isfinite(largest):
        return largest
    return largest * math.sqrt(float(np.mean(np.square(values / largest))))


def _different(values: Array) -> int:
    """How many different values there are to 11 bits, without sorting them."""
    seen = np.zeros(2**19, dtype=np.bool_)
    seen[values.astype(np.float32).view(np.uint32) >> 13] = True
    return int(seen.sum())
