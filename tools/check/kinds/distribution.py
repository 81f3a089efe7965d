"""Judgement kind `distribution`: draws that must have the probabilities that the oracle says.

Pearson's chi-square test over the vocabulary. What is tested is how often each symbol is drawn, not
whether the draws depend on one another.

The chi-square distribution is that of the statistic for many draws only, and least so far out in
the tail. So symbols are joined until each group expects LEAST_EXPECTED draws, and a result counts
as wrong where chi-square's own tail is below NOMINAL: then less than one honest result in
1 / FALSE_ALARM is refused (tests/tools/check/kinds/test_distribution.py sums the exact binomial
distribution).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from astra_chat.tools.check.floats import Array
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case

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
