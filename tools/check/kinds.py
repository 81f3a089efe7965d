"""The comparison of an argument's elements with the oracle's, by the argument's judgement kind.

Codes of 8 bits that mean a number times the scale of their group are `quantized`: a code may be the
nearest one or, in a stated share of all, one step beside it; the scales are an argument of their
own. What a code means, code times scale, is then held to the oracle with the baseline's own error,
as floats are (error_norms.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from astra_chat.tools.check.floats import (
    OVERFLOW,
    SATURATION,
    Array,
    as_float,
    as_int,
    largest_of,
    least_of,
    rounded,
    steps,
)
from astra_chat.tools.task.folder import Arg, Task, Tolerance
from astra_chat.tools.types import Case, DTypeName, is_float

LEAST_NORMAL = 2.0**-126
"""Least normal number of float32: arithmetic that flushes takes what is smaller for zero, and the
oracle may do so, too."""
NOTES = {
    "close": "allowed error there: {allowed:.3g}",
    "exact": "it must be exact",
    "quantized": "a code may be one step away from the nearest code",
}
SIGMAS = 3.0
"""What chance adds to the share of few codes that are a step off."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of values with the expected ones, element by element."""

    good: Array
    same_pattern: Array
    """NaN and infinity are where they belong."""
    share: Array
    """Error over the allowed error."""
    allowed: Array
    """Error that is allowed."""
    off: Array | None = None
    """Good elements of which only a share may be so: codes that are one step off."""


Compare = Callable[[Array, Array], Comparison]
"""Comparison of the bytes of some elements with what is expected of them."""


def comparison(task: Task, arg: Arg, case: Case) -> Compare:
    """Returns the comparison for an argument that is judged by its elements. Where outputs are in
    canonical form, only such elements are left whose value is specified."""
    dtype = arg.dtype_of(case)
    match arg.judged_by(case):
        case "exact":
            return partial(_exact, dtype)
        case "quantized":
            return lambda content, codes: compare_codes(as_float(content, dtype), codes, dtype)
    tolerance = task.tolerance_of(arg, case)
    return lambda content, expected: compare_close(
        as_float(content, dtype), expected, tolerance, dtype
    )


def _exact(dtype: DTypeName, content: Array, expected: Array) -> Comparison:
    number = as_float if is_float(dtype) else as_int
    return compare_exact(number(content, dtype), expected)


def compare_exact(got: Array, expected: Array) -> Comparison:
    """int64 against int64, or float64 against float64: a zero has its sign, any NaN is a NaN."""
    if got.dtype.kind == "f":
        nan = np.isnan(expected)
        same_pattern = np.isnan(got) == nan
        good = same_pattern & (
            nan | ((got == expected) & (np.signbit(got) == np.signbit(expected)))
        )
    else:
        same_pattern, good = np.ones(len(got), np.bool_), got == expected
    nothing = np.zeros(len(got))
    return Comparison(good, same_pattern, np.where(good, 0.0, np.inf), nothing)


def compare_close(
    got: Array, expected: Array, tolerance: Tolerance, dtype: DTypeName
) -> Comparison:
    """float64 against float64. Where all are finite and in range, as nearly always, only the errors
    are computed; else NaN and infinity patterns first: no comparison with NaN is true."""
    overflow = OVERFLOW[dtype]
    largest = SATURATION.get(dtype, overflow)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.asarray(got - expected)
    np.abs(error, out=error)
    allowed = np.asarray(np.abs(expected))
    most = float(allowed.max(initial=0.0))
    near = most + float(error.max(initial=0.0)) <= largest  # then `got` is no larger, either
    if most <= largest and (near or _within(got, largest)):
        allowed *= tolerance.rtol
        allowed += tolerance.atol
        np.maximum(allowed, LEAST_NORMAL, out=allowed)
        share = np.divide(error, allowed, out=error)
        return Comparison(share <= 1.0, np.ones(got.shape, np.bool_), share, allowed)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        beyond = np.abs(expected) > overflow * (1 + tolerance.rtol)
        same_pattern = (np.isnan(got) == np.isnan(expected)) & (
            ~beyond | (np.isinf(got) & (np.sign(got) == np.sign(expected)))
        )
        target = np.clip(expected, -largest, largest)
        allowed = np.maximum(tolerance.atol + tolerance.rtol * np.abs(target), LEAST_NORMAL)
        error = np.abs(np.clip(got, -largest, largest) - target)
        share = np.where(error == 0, 0.0, error / allowed)
    good = same_pattern & ((share <= 1.0) | np.isnan(expected))
    return Comparison(good, same_pattern, share, allowed)


def _within(values: Array, largest: float) -> bool:
    """Whether none is beyond it; a NaN is."""
    low, high = values.min(initial=0.0), values.max(initial=0.0)
    return bool(-largest <= low and high <= largest)


def compare_codes(got: Array, expected: Array, dtype: DTypeName) -> Comparison:
    """Codes as float64 against what is to be coded, in units of the code, float64, not rounded.

    What lies beyond the dtype's range is expected at its end.
    """
    nan = np.isnan(expected)
    same_pattern = np.isnan(got) == nan
    apart = np.abs(steps(_number(got), dtype) - steps(rounded(_number(expected), dtype), dtype))
    apart = np.where(nan, 0, apart)
    good = same_pattern & (apart <= 1)
    return Comparison(
        good, same_pattern, apart.astype(float), np.ones(len(got)), good & (apart == 1)
    )


def most_off(share: float, count: int) -> float:
    """How many of so many codes may be a step off, where `share` of them may."""
    return share * count + SIGMAS * math.sqrt(share * (1 - share) * count)


def scale_ratios(scales: Array, expected_scales: Array) -> Array:
    """What a code means, in units of the expected code, over the code: float64. Where the expected
    scale is zero every code means zero."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        ratio = np.where(scales == expected_scales, 1.0, scales / expected_scales)
        return np.where(expected_scales == 0, 0.0, ratio)


def to_code(expected: Array, dtype: DTypeName) -> Array:
    """What is to be coded, within the range of the codes."""
    return np.clip(expected, least_of(dtype), largest_of(dtype))


def group_places(flat: Array, shape: tuple[int, ...], group: tuple[int, ...]) -> Array:
    """Flat position of the scale of each code at these flat positions of an argument [shape]; the
    scales lie in row-major order of the groups, each [group]."""
    groups = tuple(-(-extent // size) for extent, size in zip(shape, group, strict=True))
    places = np.unravel_index(flat, shape)
    of_groups = tuple(place // size for place, size in zip(places, group, strict=True))
    return np.ravel_multi_index(of_groups, groups)


def _number(values: Array) -> Array:
    return np.nan_to_num(values, nan=0.0, posinf=np.inf, neginf=-np.inf)


# Judgement kind `distribution`: draws that must have the probabilities that the oracle says.
#
# Pearson's chi-square test over the vocabulary. What is tested is how often each symbol is drawn,
# not whether the draws depend on one another.
#
# The chi-square distribution is that of the statistic for many draws only, and least so far out in
# the tail. So symbols are joined until each group expects LEAST_EXPECTED draws, and a result counts
# as wrong where chi-square's own tail is below NOMINAL: then less than one honest result in 1 /
# FALSE_ALARM is refused (tests/tools/check/test_distribution.py sums the exact binomial
# distribution).

FALSE_ALARM = 1e-6
"""Largest chance that one call of an honest kernel is refused."""
NOMINAL = 1e-8
LEAST_EXPECTED = 100.0
RANGES = 16
"""About so many ranges of symbols are tested, too: 100,000 draws tell a bias of 2 % there."""
BIAS = 0.02
"""A share of the draws that go to other symbols than they should: that much must be found on the
check cases of a task."""


@dataclass(frozen=True)
class Refusal:
    """Why draws are not accepted."""

    place: int
    """Flat position of the first draw that speaks against them."""
    bad: int
    """Draws of that kind."""
    why: str


def vocabulary(task: Task, arg: Arg, case: Case) -> int:
    """How many symbols there are: the last extent of the argument that has their probabilities."""
    assert arg.judged is not None, "it is judged by its distribution"
    given = next(other for other in task.args if other.name == arg.judged.probabilities)
    return given.shape_of(case)[-1]


def judge_draws(
    draws: Array, probabilities: Array, symbols: int, made: Array | None = None
) -> Refusal | None:
    """None where the draws can come from these probabilities.

    `draws`: int64, flat, rows of equally many; `probabilities`: float64, flat, [rows, symbols].
    `made`: which of them were made, where only a part was: the others say nothing.
    """
    table = probabilities.reshape(-1, symbols)
    places = np.arange(len(draws)) if made is None else np.flatnonzero(made)
    rows, drawn = places // max(1, len(draws) // len(table)), draws[places]
    outside = np.flatnonzero((drawn < 0) | (drawn >= symbols))
    if len(outside):
        return Refusal(int(places[outside[0]]), len(outside), f"symbols must be 0 to {symbols - 1}")
    impossible = np.flatnonzero(table[rows, drawn] <= 0)
    if len(impossible):
        return Refusal(int(places[impossible[0]]), len(impossible), "its probability is zero")
    refusal = _frequencies(drawn, rows, table)
    return refusal and replace(refusal, place=int(places[refusal.place]))


def _frequencies(drawn: Array, rows: Array, table: Array) -> Refusal | None:
    """Tests how often symbols are drawn: single ones, rare ones joined with others as rare, and
    ranges of symbols. The former shows what a few gain, and greed; the latter what many lose.
    `rows`: row of each draw."""
    expected = (table * np.bincount(rows, minlength=len(table))[:, None]).T.reshape(-1)
    cells = drawn * len(table) + rows
    counted = np.bincount(cells, minlength=expected.size)
    rarest_last = np.argsort(-expected, kind="stable")
    in_ranges = max(LEAST_EXPECTED, drawn.size / RANGES)
    for order, least in ((rarest_last, LEAST_EXPECTED), (np.arange(len(expected)), in_ranges)):
        group = np.empty(len(expected), np.int64)
        group[order] = _groups(expected[order], least)
        got, wanted = np.bincount(group, counted), np.bincount(group, expected)
        if len(got) < 2:
            continue
        shares = (got - wanted) ** 2 / wanted
        # Where rows have groups of their own there are fewer degrees of freedom than this: an error
        # to the safe side.
        statistic, degrees = float(shares.sum()), len(got) - 1
        tail = log_tail(statistic, degrees)
        if tail < math.log(NOMINAL):
            worst = int(np.argmax(shares))
            of_worst = group[cells] == worst
            symbols = np.flatnonzero(group == worst) // len(table)
            return Refusal(
                int(np.argmax(of_worst)),
                int(got[worst]),
                f"{drawn.size:,} draws: chi-square {statistic:,.0f}, degrees of freedom {degrees},"
                f" probability 1e{tail / math.log(10):.0f}; {_symbols(symbols)} drawn"
                f" {int(got[worst]):,} times, expected {wanted[worst]:,.0f}",
            )
    return None


def _groups(expected: Array, least: float) -> Array:
    """A group for each cell: one that expects enough draws is alone, the others are joined in their
    order until each group does; those that do not together join the last that does."""
    alone = expected >= least
    large = int(alone.sum())
    group = np.cumsum(alone) - 1
    small = np.cumsum(expected[~alone])
    # A range of twice the least, less than `least` of which may lie in the ranges beside it.
    ranges = int(small[-1] // (2 * least)) if len(small) else 0
    if len(small) and not ranges and (small[-1] >= least or not large):
        ranges = 1
    before = small - expected[~alone]
    places = np.minimum((before // (2 * least)).astype(np.int64), ranges - 1)
    group[~alone] = large + places if ranges else large - 1
    return group


def _symbols(symbols: Array) -> str:
    first, last = int(symbols.min()), int(symbols.max())
    return f"symbol {first}" if first == last else f"some symbols from {first} to {last}"


def honest(probabilities: Array, symbols: int, count: int, rng: np.random.Generator) -> Array:
    """So many draws in all, as many of each row of probabilities."""
    table = np.cumsum(probabilities.reshape(-1, symbols), axis=1)
    uniform = rng.random((len(table), count // len(table))) * table[:, -1:]
    drawn = [np.searchsorted(row, own, "right") for row, own in zip(table, uniform, strict=True)]
    return np.concatenate(drawn)


def biased(draws: Array, probabilities: Array, symbols: int, rng: np.random.Generator) -> Array:
    """The draws, a share of BIAS of them moved from the symbols that have the first half of a row's
    probability to others that were drawn in that row."""
    table = probabilities.reshape(-1, symbols)
    rows = draws.reshape(len(table), -1).copy()
    early = np.take_along_axis(np.cumsum(table, axis=1) <= 0.5, rows, axis=1)
    for row, from_first_half in zip(rows, early, strict=True):
        first, others = np.flatnonzero(from_first_half), row[~from_first_half]
        count = min(len(first), round(BIAS * len(row)))
        if count and len(others):
            row[rng.choice(first, count, replace=False)] = rng.choice(others, count)
    return rows.reshape(-1)


def log_tail(statistic: float, degrees: int) -> float:
    """Natural logarithm of the probability that chi-square with so many degrees of freedom is at
    least `statistic`.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.4.4 (odd) and 26.4.5 (even):
    with h = statistic / 2, for even degrees the sum of exp(-h) h^j / j! over j < degrees / 2; for
    odd ones erfc(sqrt(h)) and the sum of exp(-h) h^(j - 1/2) / Gamma(j + 1/2) over j from 1 to
    (degrees - 1) / 2. Summed as logarithms, so that nothing underflows.
    """
    if statistic <= 0:
        return 0.0
    half, odd = statistic / 2, degrees % 2
    first = 0.5 if odd else 0.0
    powers = first + np.arange(degrees // 2)
    # log Gamma(p + 1) for each power p, as a running sum of logarithms.
    steps = np.log(np.maximum(powers, 1e-300))
    steps[:1] = math.lgamma(first + 1)
    terms = powers * math.log(half) - half - np.cumsum(steps)
    if odd:
        terms = np.append(terms, _log_erfc(math.sqrt(half)))
    top = float(np.max(terms))
    return min(0.0, top + math.log(float(np.sum(np.exp(terms - top)))))


def _log_erfc(x: float) -> float:
    """Beyond the range of float64 by its asymptotic expansion (Abramowitz and Stegun, 7.1.23)."""
    if x < 20:
        return math.log(math.erfc(x))
    return -x * x - math.log(x * math.sqrt(math.pi)) + math.log1p(-1 / (2 * x * x))
