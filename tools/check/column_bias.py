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
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

import numpy as np

from astra_chat.tools.check.bands import in_own_units, is_narrow
from astra_chat.tools.check.floats import Array, rounded, ulp
from astra_chat.tools.check.measured_values import MeasuredPiece, coded
from astra_chat.tools.run.oracle import terms_of
from astra_chat.tools.types import Case, DTypeName, Wrong, is_float

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
CLUSTER = 16
"""Rows next to each other that may have terms in common, as the heads of one group read the same
values."""
MANY = 64
"""Rows that tell something: a quotient of fewer sums has no normal distribution."""
DIRECTIONS = ("upwards", "away from zero")


# Ties: exact results in the middle of two values, as sums of few 16-bit numbers often are.
#
# Round to nearest even takes the even one, which has no direction; rounding half away or up has
# one.
#
# Float32 sums of such numbers are exact, so where the baseline breaks ties to even, others do. Of
# large numbers products are, too, whose other factor is an activation that has reached its end:
# SiLU and GELU return such a number itself. Where a kernel computes the same in another way, its
# own errors break ties to both sides alike: only such as all go one way (away from zero, towards
# it, up or down) are held against it. Codes are left out, whose scales are quotients.

ONE_WAY = 0.9
"""Share of such ties that go the same way, from which on they have a direction."""
TIES_OF = 2**17
"""Elements of a case that are looked at."""
MANY_TIES = 64
"""Ties that are broken otherwise, below which they are chance."""
EXACT, INEXACT = 0.01, 0.04
"""Share of ties that a baseline breaks otherwise and is taken for exact, and from which on a
candidate is wrong: half of them are where each is broken away from zero, less where some columns
do."""


@dataclass
class Ties:
    """Ties among a kernel's results of normal and large values, by argument and dtype."""

    total: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    odd: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    """Those that were not rounded to even."""
    away: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    """Those of them that went away from zero."""
    up: Counter[tuple[str, DTypeName]] = field(default_factory=Counter)
    """Those of them that went up."""
    _last: dict[tuple[str, DTypeName], Wrong] = field(default_factory=dict)

    def add(self, piece: MeasuredPiece) -> None:
        """Count a piece of results."""
        dtype = piece.arg.dtype_of(piece.case)
        if not is_float(dtype) or coded(piece.arg):
            return
        got, expected = in_own_units(piece, slice(0, TIES_OF))
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.abs(expected / ulp(expected, dtype))
            steps -= np.floor(steps)  # exact, and a quarter of the time that % takes
            tie = np.flatnonzero(steps == 0.5)
            odd = tie[got[tie] != rounded(expected[tie], dtype)]
        kind = piece.arg.name, dtype
        self.total[kind] += len(tie)
        self.odd[kind] += len(odd)
        self.away[kind] += int((np.abs(got[odd]) > np.abs(expected[odd])).sum())
        self.up[kind] += int((got[odd] > expected[odd]).sum())
        if len(odd):
            first = int(odd[0])
            index = np.unravel_index(int(piece.ran[first]), piece.arg.shape_of(piece.case))
            self._last[kind] = Wrong(
                case=piece.case,
                argument=piece.arg.name,
                reason="precision",
                index=tuple(int(i) for i in index),
                expected=float(expected[first]),
                got=float(got[first]),
                bad=len(odd),
                total=len(got),
            )

    def merge(self, later: Ties) -> None:
        """Count what was counted elsewhere, of later results."""
        self.total.update(later.total)
        self.odd.update(later.odd)
        self.away.update(later.away)
        self.up.update(later.up)
        self._last |= later._last

    def beside(self, baseline: Ties) -> Wrong | None:
        """An argument whose ties are broken otherwise than the baseline's."""
        for kind, odd in self.odd.items():
            own = baseline.odd[kind] / max(1, baseline.total[kind])
            total = self.total[kind]
            ways = self.away[kind], odd - self.away[kind], self.up[kind], odd - self.up[kind]
            one_way = max(ways) >= ONE_WAY * odd
            if odd >= MANY_TIES and own <= EXACT and odd > INEXACT * total and one_way:
                note = (
                    f"{odd:,} of {total:,} exact results halfway between two values are not"
                    f" rounded to even, against only {own:.1%} of the baseline's: round to"
                    " nearest even"
                )
                return self._last[kind].model_copy(update={"note": note})
        return None


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
    clusters: Array
    """Sum over clusters of rows of the squared sum of a cluster's errors, in ulps squared."""
    products: Array
    """Sum over clusters of the sum of a cluster's errors by the number of its elements, in ulps."""
    sizes: Array
    """Sum over clusters of the squared number of its elements."""

    @staticmethod
    def none() -> Sums:
        shape = len(DIRECTIONS), len(MODULI), FINEST
        return Sums(*(np.zeros(shape) for _ in fields(Sums)))

    def __iadd__(self, other: Sums) -> Sums:
        for one in fields(Sums):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        return self

    @property
    def mean(self) -> Array:
        """Mean error, in ulps."""
        mean: Array = self.total / np.maximum(self.count, 1)
        return mean

    @property
    def variance(self) -> Array:
        """Variance of the mean, in ulps squared, by rows or by clusters, whichever is more: a few
        clusters may be alike by chance, and rows of one cluster need not be independent."""
        mean = self.mean
        clusters = self.clusters - 2 * mean * self.products + mean**2 * self.sizes
        squares = np.maximum(self.squares, clusters)
        variance: Array = squares / np.maximum(self.count, 1) ** 2
        return variance


Kind = tuple[str, DTypeName]
"""An argument and its dtype."""
Called = tuple[str, int]
"""A case's key, and the number of the call, from 0."""


@dataclass
class ColumnBias:
    """Signed errors of one kernel, by argument and dtype, and by call. A check may call a case
    several times, and its errors are mostly the same each time: first calls are compared with each
    other, then second calls, and so on."""

    sums: dict[Kind, dict[Called, Sums]] = field(default_factory=dict)
    ties: Ties = field(default_factory=Ties)
    _calls: Counter[tuple[Kind, str, int]] = field(default_factory=Counter)
    """How often each piece of a case was counted, by the position of its first element."""
    _last: dict[Kind, MeasuredPiece] = field(default_factory=dict)

    def add(self, piece: MeasuredPiece) -> None:
        """Count a piece of results. Of special values errors mean nothing, and where values follow
        a pattern, roundings do: only normal ones are looked at, and ties of large ones."""
        case = piece.case
        shape = piece.arg.shape_of(case)
        if case.values not in ("normal", "large") or case.families:
            return
        self.ties.add(piece)
        if case.values != "normal" or shape[-1] < MODULI[0]:
            return
        kind = piece.arg.name, piece.arg.dtype_of(case)
        place = kind, case.key, int(piece.ran[0]) if len(piece.ran) else 0
        call = case.key, self._calls[place]
        self._calls[place] += 1
        by_call = self.sums.setdefault(kind, {})
        by_call.setdefault(call, Sums.none()).__iadd__(_sums(piece, shape[-1]))
        self._last[kind] = _first_of(piece)

    def merge(self, later: ColumnBias) -> None:
        """Count what was counted elsewhere, of later results."""
        for kind, by_call in later.sums.items():
            mine = self.sums.setdefault(kind, {})
            calls = Counter[str](key for key, _ in mine)
            for (key, number), sums in by_call.items():
                mine[key, calls[key] + number] = sums
        self._calls.update(later._calls)
        self.ties.merge(later.ties)
        self._last |= later._last

    def forget(self, case: Case) -> None:
        """Errors of a case that nothing will be compared on."""
        forgotten = case.key
        for by_call in self.sums.values():
            for call in [call for call in by_call if call[0] == forgotten]:
                del by_call[call]
        for place in [place for place in self._calls if place[1] == forgotten]:
            del self._calls[place]

    def beside(self, baseline: ColumnBias) -> Wrong | None:
        """The columns whose errors lean another way than the baseline's, or ties that do."""
        if wrong := self.ties.beside(baseline.ties):
            return wrong
        for kind, by_call in self.sums.items():
            of_baseline = baseline.sums.get(kind, {})
            for number in sorted({number for _, number in by_call}):
                both = [key for key, called in by_call if called == number]
                both = [key for key in both if (key, 0) in of_baseline]
                sums = _total(by_call[key, number] for key in both)
                own = _total(of_baseline.get((k, number), of_baseline[k, 0]) for k in both)
                if wrong := self._compared(kind, sums, own):
                    return wrong
        return None

    def _compared(self, kind: Kind, sums: Sums, own: Sums) -> Wrong | None:
        least = LEAST_NARROW if is_narrow(self._last[kind]) else LEAST_FLOAT32
        apart = sums.mean - own.mean
        sigma = np.sqrt(sums.variance + own.variance)
        beyond = (sums.rows >= MANY) & (np.abs(apart) > np.maximum(least, SIGMAS * sigma))
        if not beyond.any():
            return None
        worst = np.argmax(np.where(beyond, np.abs(apart) / np.maximum(sigma, 1e-12), 0))
        return self._wrong(kind, sums, own, np.unravel_index(worst, apart.shape))

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
                f"columns whose index is {remainder} modulo {MODULI[modulus]} are biased by"
                f" {sums.mean[at]:+.2f}"
                f" ulp {DIRECTIONS[direction]} relative to the others in their rows (the"
                f" baseline's by {own.mean[at]:+.2f}), over {count:,} elements of all normal"
                f" cases: round every column in the same way, to nearest"
            ),
        )


def _first_of(piece: MeasuredPiece) -> MeasuredPiece:
    """The first element of a piece, which keeps none of its arrays in memory."""
    return piece._replace(
        got=piece.got[:1].copy(),
        expected=piece.expected[:1].copy(),
        ran=piece.ran[:1].copy(),
        oracle_case=piece.oracle_case.read_again(),
        codes=None,
        ratio=None,
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
    if not kept.all():
        got, expected, flat = got[kept], expected[kept], flat[kept]
    row = flat // width
    column = flat - row * width
    if not len(got) or _is_ordered(expected, row):
        return found
    dtype = piece.arg.dtype_of(piece.case)
    scale = np.abs(expected)
    if not is_narrow(piece):
        scale = np.maximum(scale, _sizes(piece, flat, scale))
    error = (got - expected) / ulp(scale, dtype)
    error = np.clip(error, -4, 4)
    row -= row[0]
    _by_remainder(found, (error, error * np.sign(expected)), row, column)
    return found


def _is_ordered(expected: Array, row: Array) -> bool:
    """Whether the numbers of each row only fall, or only rise, by what the oracle expects."""
    count = 0
    for some in (slice(0, FINEST), slice(None)):  # the first row nearly always tells
        steps = np.diff(expected[some])[np.diff(row[some]) == 0]
        if (steps < 0).any() and (steps > 0).any():
            return False
        count = len(steps)
    return count > 0


def _sizes(piece: MeasuredPiece, flat: Array, magnitude: Array) -> Array:
    """What float32's errors are measured on: cancellation leaves errors of the size of the terms,
    or of the whole where no one states them."""
    terms = terms_of(piece.oracle_case, piece.arg)
    if terms is None:
        return np.full(len(flat), math.sqrt(float(np.mean(np.square(magnitude)))))
    sizes = np.asarray(terms[0][flat], dtype=np.float64)
    return np.where(np.isfinite(sizes), sizes, magnitude)


def _by_remainder(found: Sums, errors: tuple[Array, Array], row: Array, column: Array) -> None:
    """Add the errors, in each of DIRECTIONS, by row and remainder, each less the mean of its
    row."""
    rows, widest = int(row[-1]) + 1, int(column.max()) + 1
    finest = next((modulus for modulus in MODULI if modulus >= widest), FINEST)
    cells, shape = row * finest + (column & finest - 1), (rows, finest)
    count = np.bincount(cells, minlength=rows * finest).reshape(shape)
    in_row, starts = np.maximum(count.sum(axis=1), 1), np.arange(0, rows, CLUSTER)
    counts = _folded(count)
    sizes = [np.add.reduceat(counted, starts) for counted in counts]
    for direction, error in enumerate(errors):
        total = np.bincount(cells, error, rows * finest).reshape(shape)
        apart = total - count * (total.sum(axis=1) / in_row)[:, None]
        for place, folded in enumerate(_folded(apart)):
            at, sums = (
                (direction, place, slice(0, folded.shape[1])),
                np.add.reduceat(folded, starts),
            )
            found.total[at] += folded.sum(axis=0)
            found.squares[at] += np.square(folded).sum(axis=0)
            found.clusters[at] += np.square(sums).sum(axis=0)
            found.products[at] += (sums * sizes[place]).sum(axis=0)
    for place, (counted, size) in enumerate(zip(counts, sizes, strict=True)):
        both = slice(None), place, slice(0, counted.shape[1])
        found.count[both] += counted.sum(axis=0)
        found.rows[both] += (counted > 0).sum(axis=0)
        found.sizes[both] += np.square(size).sum(axis=0)


def _folded(cells: Array) -> list[Array]:
    """[rows, finest] by remainder of each of MODULI: [rows, modulus], or as it is where no column
    has another remainder."""
    found = list[Array]()
    for modulus in reversed(MODULI):
        if cells.shape[1] > modulus:
            cells = cells[:, :modulus] + cells[:, modulus:]
        found.append(cells)
    return found[::-1]
