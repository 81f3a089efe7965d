"""Errors that add up: the mean signed error of columns, over all cases of a check.

Rounding errors have no direction. A kernel that truncates some columns has a bias there, which adds
up over the layers of a model, though each of its results may be allowed. So the errors of columns
with one remainder modulo 8, 16, 32 and 64 are compared with the other columns' of the same rows,
and that with the same difference of the baseline on the same cases: where results repeat, as those
of gathered rows do, so do their roundings, and those are the same for both. What a row has in
common, such as a scale that is an ulp too small, is no difference between columns. Where each row
is ordered by value, as the largest k of a row are, a column stands for a size, and sizes have
errors of their own: such columns are not compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from astra_chat.tools.check.bands import in_own_units, is_narrow
from astra_chat.tools.check.floats import Array, ulp
from astra_chat.tools.check.measured_values import MeasuredPiece
from astra_chat.tools.check.ties import Ties
from astra_chat.tools.run.band_files import terms_of
from astra_chat.tools.types import Case, DTypeName, Wrong

MODULI = (8, 16, 32, 64)
FINEST = MODULI[-1]
SIGMAS = 7.0
"""Standard deviations up to which a difference of means may be chance. A check looks at some
hundreds of differences."""
LEAST_NARROW, LEAST_FLOAT32 = 0.02, 0.25
"""Ulps below which a difference of means is no fault: of results of 16 bits or less, which float32
arithmetic rounds right but for a few per thousand; of float32, whose columns other instructions may
make."""
PART = 2**15
"""Elements of a case that are looked at."""
MANY = 64
"""Rows that tell something: a quotient of fewer sums has no normal distribution."""
DIRECTIONS = ("upwards", "away from zero")


@dataclass
class Sums:
    """Errors of columns by their remainder, less the mean error of their rows; all arrays are
    [directions, moduli, FINEST]."""

    count: Array
    """Elements in the columns."""
    rows: Array
    """Rows that have such a column."""
    total: Array
    """Sum of the errors, in ulps."""
    squares: Array
    """Sum over rows of the squared sum of a row's errors, in ulps squared."""

    @staticmethod
    def none() -> Sums:
        return Sums(*(np.zeros((len(DIRECTIONS), len(MODULI), FINEST)) for _ in range(4)))

    def __iadd__(self, other: Sums) -> Sums:
        for name in ("count", "rows", "total", "squares"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    @property
    def mean(self) -> Array:
        """Mean error, in ulps."""
        mean: Array = self.total / np.maximum(self.count, 1)
        return mean

    @property
    def variance(self) -> Array:
        """Variance of the mean, in ulps squared: rows are independent, elements of a row need not
        be."""
        variance: Array = self.squares / np.maximum(self.count, 1) ** 2
        return variance


Kind = tuple[str, DTypeName]
"""An argument and its dtype."""


@dataclass
class ColumnBias:
    """Signed errors of one kernel, by argument and dtype, and by the case's key."""

    sums: dict[Kind, dict[str, Sums]] = field(default_factory=dict)
    ties: Ties = field(default_factory=Ties)
    _last: dict[Kind, MeasuredPiece] = field(default_factory=dict)

    def add(self, piece: MeasuredPiece) -> None:
        """Count a piece of results. Of special values errors mean nothing, and where values follow
        a pattern, roundings do: only normal ones are looked at."""
        case = piece.case
        shape = piece.arg.shape_of(case)
        if case.values != "normal" or case.families:
            return
        self.ties.add(piece)
        if shape[-1] < MODULI[0]:
            return
        kind = piece.arg.name, piece.arg.dtype_of(case)
        by_case = self.sums.setdefault(kind, {})
        by_case.setdefault(case.key, Sums.none()).__iadd__(_sums(piece, shape[-1]))
        self._last[kind] = piece._replace(got=piece.got[:1], expected=piece.expected[:1])

    def merge(self, later: ColumnBias) -> None:
        """Count what was counted elsewhere, of later results."""
        for kind, by_case in later.sums.items():
            mine = self.sums.setdefault(kind, {})
            for key, sums in by_case.items():
                mine.setdefault(key, Sums.none()).__iadd__(sums)
        self.ties.merge(later.ties)
        self._last |= later._last

    def forget(self, case: Case) -> None:
        """Errors of a case that nothing will be compared on."""
        for by_case in self.sums.values():
            by_case.pop(case.key, None)

    def beside(self, baseline: ColumnBias) -> Wrong | None:
        """The columns whose errors lean another way than the baseline's, or ties that do."""
        if wrong := self.ties.beside(baseline.ties):
            return wrong
        for kind, by_case in self.sums.items():
            of_baseline = baseline.sums.get(kind, {})
            both = [key for key in by_case if key in of_baseline]
            sums, own = (_total(found[key] for key in both) for found in (by_case, of_baseline))
            least = LEAST_NARROW if is_narrow(self._last[kind]) else LEAST_FLOAT32
            apart = sums.mean - own.mean
            sigma = np.sqrt(sums.variance + own.variance)
            beyond = (sums.rows >= MANY) & (np.abs(apart) > np.maximum(least, SIGMAS * sigma))
            if beyond.any():
                worst = np.argmax(np.where(beyond, np.abs(apart) / np.maximum(sigma, 1e-12), 0))
                return self._wrong(kind, sums, own, np.unravel_index(worst, apart.shape))
        return None

    def _wrong(self, kind: Kind, sums: Sums, own: Sums, at: tuple[np.intp, ...]) -> Wrong:
        piece, (direction, modulus, remainder) = self._last[kind], (int(place) for place in at)
        shape = piece.arg.shape_of(piece.case)
        count = int(sums.count[at])
        return Wrong(
            case=piece.case,
            argument=kind[0],
            reason="precision",
            index=(*(0 for _ in shape[:-1]), remainder),
            expected=float(piece.expected[0]),
            got=float(piece.got[0]),
            bad=count,
            total=int(sums.count[direction, modulus].sum()),
            note=(
                f"columns {remainder} modulo {MODULI[modulus]} are biased by {sums.mean[at]:+.2f}"
                f" ulp {DIRECTIONS[direction]} relative to the others in their rows (the"
                f" baseline's by {own.mean[at]:+.2f}), over {count:,} elements of all normal"
                f" cases: round every column in the same way, to nearest"
            ),
        )


def _total(parts: Iterable[Sums]) -> Sums:
    total = Sums.none()
    for part in parts:
        total += part
    return total


def _sums(piece: MeasuredPiece, width: int) -> Sums:
    got, expected = in_own_units(piece, slice(0, PART))
    flat, found = piece.ran[:PART], Sums.none()
    kept = np.isfinite(got) & np.isfinite(expected)
    got, expected, flat = got[kept], expected[kept], flat[kept]
    row, column = flat // width, flat % width
    if not len(got) or _is_ordered(expected, row):
        return found
    dtype = piece.arg.dtype_of(piece.case)
    scale = np.abs(expected)
    if not is_narrow(piece):
        scale = np.maximum(scale, _sizes(piece, flat, scale))
    error = (got - expected) / ulp(scale, dtype)
    error = np.clip(error, -4, 4)
    row -= row[0]
    for direction, signed in enumerate((error, error * np.sign(expected))):
        _by_remainder(found, direction, signed, row, column)
    return found


def _is_ordered(expected: Array, row: Array) -> bool:
    """Whether the numbers of each row only fall, or only rise, by what the oracle expects."""
    steps = np.diff(expected)[np.diff(row) == 0]
    return len(steps) > 0 and bool((steps <= 0).all() or (steps >= 0).all())


def _sizes(piece: MeasuredPiece, flat: Array, magnitude: Array) -> Array:
    """What float32's errors are measured on: cancellation leaves errors of the size of the terms,
    or of the whole where no one states them."""
    terms = terms_of(piece.oracle_case, piece.arg)
    if terms is None:
        return np.full(len(flat), math.sqrt(float(np.mean(np.square(magnitude)))))
    sizes = np.asarray(terms[0][flat], dtype=np.float64)
    return np.where(np.isfinite(sizes), sizes, magnitude)


def _by_remainder(found: Sums, direction: int, error: Array, row: Array, column: Array) -> None:
    """Add the errors by row and remainder, each less the mean of its row."""
    rows = int(row[-1]) + 1
    cells = row * FINEST + column % FINEST
    total = np.bincount(cells, error, rows * FINEST).reshape(rows, FINEST)
    count = np.bincount(cells, minlength=rows * FINEST).reshape(rows, FINEST)
    mean = total.sum(axis=1) / np.maximum(count.sum(axis=1), 1)
    apart = total - count * mean[:, None]
    for place, modulus in enumerate(MODULI):
        folded, counted = (
            values.reshape(rows, FINEST // modulus, modulus).sum(axis=1)
            for values in (apart, count)
        )
        at = direction, place, slice(0, modulus)
        found.count[at] += counted.sum(axis=0)
        found.rows[at] += (counted > 0).sum(axis=0)
        found.total[at] += folded.sum(axis=0)
        found.squares[at] += np.square(folded).sum(axis=0)
