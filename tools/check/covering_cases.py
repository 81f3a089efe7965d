"""Covering cases: in few calls every pair, or triple, of what kernels are instantiated for.

A fault of one instantiation shows in no call that another serves. So the dtypes, booleans, named
scalars, absent arguments, alignments and extents of a task are factors of a covering array
(the end of this file), each of a few levels: in every check all pairs of them are called, in a
confirmation all triples. Within a level of several extents, and in what a row leaves open, values
are drawn.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, pairwise, product
from typing import NamedTuple

from astra_chat.tools.check.covering_options import Option, options_of
from astra_chat.tools.check.drawn_dims import Dims, least
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.expressions import parse_relation
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.relations import settled
from astra_chat.tools.types import ITEM_BYTES, Case

USUAL_BYTES, MOST_BYTES = 2**16, {2: (2**21, 2**19), 3: (2**20, 2**18)}
"""Bytes of one case: usually; and, by strength, of one whose pair or triple of extents takes more,
of a task of few dims and of one of more."""
CHOICES, DRAWS = 48, 8
"""Choices of extents within levels that are looked at for a legal one, and that are drawn."""
SLACK = 2
"""Times its budget a case may take for the extents that are drawn within its levels."""
BESIDE = 3
"""Times its least an extent that a row leaves open is, at most."""


class Covering(NamedTuple):
    """One case to make: its extents, and what the options then make of the case."""

    kind: Combination
    dims: Dims
    absent: tuple[str, ...]
    finish: Callable[[Case], Case]


@dataclass(frozen=True)
class Design:
    """The factors of a task: combination of dtypes, dims in their order, options."""

    task: Task
    strength: int
    dims: Mapping[str, tuple[tuple[int, ...], ...]]
    """The levels of each dim, each of one extent or of several."""
    options: tuple[Option, ...]
    most_bytes: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the factors."""
        return ("dtypes", *self.dims, *(option.name for option in self.options))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Levels of each factor."""
        options = (option.levels for option in self.options)
        return (len(self.task.combinations), *map(len, self.dims.values()), *options)

    def row_of(self, case: Case) -> Row:
        """The levels that a case has; OPEN where an extent is in none."""
        dims = (
            next((i for i, level in enumerate(levels) if case.dims[name] in level), OPEN)
            for name, levels in self.dims.items()
        )
        options = (option.of(case) for option in self.options)
        return (self.task.combinations.index(Combination.of(case)), *dims, *options)

    def words(self, factors: Sequence[int]) -> str:
        return " x ".join(self.names[factor] for factor in factors)


def design(task: Task, strength: int) -> Design:
    """The factors of a task for arrays of this strength."""
    options = options_of(task)
    beside = [len(task.combinations), *(option.levels for option in options)]
    most = MOST_BYTES[strength][len(task.dims) > FEW_DIMS]
    return Design(task, strength, dim_levels(task, strength, most, beside), options, most)


def covering_cases(
    task: Task, strength: int, rng: random.Random
) -> tuple[list[Covering], tuple[str, ...]]:
    """Cases with all pairs (strength 2) or triples (3) of levels; and, for factors with some that
    only larger cases have, how many of them are left out, as text."""
    of = design(task, strength)
    fits = Fits(of)
    array = covering_array(
        of.sizes, strength, rng, fits.bytes_of, usual=USUAL_BYTES, most=of.most_bytes
    )
    rows = (_covering(of, fits, row, rng) for row in array.rows)
    return list(rows), tuple(_left_out(of, array))


def _left_out(of: Design, array: CoveringArray) -> Iterator[str]:
    counts = dict[tuple[int, ...], int]()
    for levels in array.too_large:
        factors = tuple(factor for factor, _ in levels)
        counts[factors] = counts.get(factors, 0) + 1
    for factors, count in sorted(counts.items()):
        every = math.prod(of.sizes[factor] for factor in factors)
        size = f"take more than {of.most_bytes // 2**10} KiB"
        yield f"{of.words(factors)}: {count} of {every} combinations {size}"


def _covering(of: Design, fits: Fits, row: Row, rng: random.Random) -> Covering:
    count = 1 + len(of.dims)
    kind, dims = fits.drawn(row[:count], rng)
    places = [
        (o, rng.randrange(o.levels) if at == OPEN else at)
        for o, at in zip(of.options, row[count:], strict=True)
    ]
    absent = tuple(option.absent for option, level in places if option.absent and level)

    def finish(case: Case) -> Case:
        for option, level in places:
            case = option.put(case, level, rng)
        return case

    return Covering(kind, dims, absent, finish)


class Fits:
    """Legal extents within levels. What is looked up is kept: rows repeat it often."""

    def __init__(self, of: Design) -> None:
        self._task, self._levels = of.task, of.dims
        self._known = dict[Row, float]()
        self._scalars = of.task.usual_scalars
        kinds = self._combinations = of.task.combinations
        self._by_size = sorted(range(len(kinds)), key=lambda at: ITEM_BYTES[kinds[at].dtype])
        self._base = [least(of.task, kind) for kind in kinds]
        self._legal = [
            {
                name: [
                    [e for e in level if of.task.dims[name].allows(e, kind.dtype)]
                    for level in levels
                ]
                for name, levels in of.dims.items()
            }
            for kind in kinds
        ]
        self._relations = [parse_relation(text) for text in of.task.require]

    def bytes_of(self, row: Row) -> float:
        """Least bytes of a call with these levels; infinite where none is legal."""
        return self._least(row[: 1 + len(self._levels)])

    def drawn(self, row: Row, rng: random.Random) -> tuple[Combination, Dims]:
        """Legal extents within the levels of a row, in a call that is not much larger than the
        least; extents beside them near their least."""
        task, kinds = self._task, self._combinations
        size = self._least(row)
        legal = [place for place in self._kinds(row) if self._of_kind(row, place)]
        place = rng.choice(legal)
        levels, base = self._named(row, place), self._base[place]
        for _ in range(DRAWS):
            placed = {name: rng.choice(extents) for name, extents in levels.items()}
            beside = {n: e * rng.randint(1, BESIDE) for n, e in base.items() if n not in placed}
            found = self._settled(place, {**base, **beside}, placed)
            small = found and found[0] <= SLACK * max(size, USUAL_BYTES)
            if found and small and not any(True for _ in task.flaws(kinds[place].case(found[1]))):
                return kinds[place], found[1]
        least_of_all = self._of_kind(row, place)
        assert least_of_all is not None
        return kinds[place], least_of_all[1]

    def _least(self, row: Row) -> float:
        """Returns the bytes of a call with the smallest legal extents of a row; infinite where none
        are legal. A row without dtypes is called with the first combination that is legal, by the
        size of its first dtype."""
        if row not in self._known:
            found = (self._of_kind(row, place) for place in self._kinds(row))
            self._known[row] = next((one[0] for one in found if one), math.inf)
        return self._known[row]

    def _kinds(self, row: Row) -> Sequence[int]:
        return self._by_size if row[0] == OPEN else row[:1]

    def _named(self, row: Row, place: int) -> dict[str, list[int]]:
        """The extents of each level that are legal for a combination of dtypes."""
        pairs = zip(self._legal[place].items(), row[1:], strict=True)
        return {name: levels[at] for (name, levels), at in pairs if at != OPEN}

    def _of_kind(self, row: Row, place: int) -> tuple[float, Dims] | None:
        """The smallest extents of the levels that are legal together; else others of them."""
        levels, base = self._named(row, place), self._base[place]
        for chosen in islice(product(*levels.values()), CHOICES):
            if found := self._settled(place, base, dict(zip(levels, chosen, strict=True))):
                return found
        return None

    def _settled(
        self, place: int, base: Dims, placed: Mapping[str, int]
    ) -> tuple[float, Dims] | None:
        """The bytes and dims of a legal call with the placed extents and others near the base."""
        task, kind = self._task, self._combinations[place]
        names = {**self._scalars, **placed}
        if not all(one.value(names) for one in self._relations if one.names <= names.keys()):
            return None
        wanted: Dims = {**base, **placed}
        dims: Dims | None = wanted
        if self._relations:
            dims = settled(task.require, task.dims, wanted, kind.dtype, placed, self._scalars)
        return (task.size_bytes(kind.case(dims)), dims) if dims else None


# Covering arrays: rows in which every combination of the levels of any `strength` factors occurs.
#
# Built row by row as in AETG (Cohen, Dalal, Fredman and Patton, "The AETG system: an approach to
# testing based on combinatorial design", IEEE TSE 23(7), 1997), with constraints as costs: each row
# begins with a combination that no row has yet, and the other factors, in a drawn order, take the
# level that adds most new combinations. That this ends with few rows, and in time that grows with
# the logarithm of the number of factors, is shown there; Lei and Tai's IPO (1998) is the
# alternative that extends rows factor by factor.

LARGEST = sys.float_info.max
OPEN = -1
"""In the place of a level: any will do."""
Row = tuple[int, ...]
"""The level of each factor, or OPEN."""
Levels = tuple[tuple[int, int], ...]
"""(factor, level) of some factors, ascending."""
Cost = Callable[[Row], float]
"""What the cheapest call costs that has the levels of a row; infinite where there is none. It does
not fall where a row gets more levels."""


@dataclass(frozen=True)
class CoveringArray:
    """Rows, and what they leave out."""

    rows: tuple[Row, ...]
    impossible: int
    """Combinations that no call has."""
    too_large: tuple[Levels, ...]
    """Combinations that only calls above the greatest cost have."""


def covering_array(
    sizes: Sequence[int],
    strength: int,
    rng: random.Random,
    cost: Cost = lambda _: 0.0,
    *,
    usual: float = LARGEST,
    most: float = LARGEST,
) -> CoveringArray:
    """All combinations of levels of any `strength` factors, of which factor i has `sizes[i]`.

    A row costs `usual` at most, or what the combination that it begins with costs, if that is
    more; combinations that cost more than `most` are left out, and named.
    """
    strength = min(strength, len(sizes))
    waiting = list(_all(sizes, strength))
    rng.shuffle(waiting)
    new, rows, too_large, impossible = set(waiting), list[Row](), list[Levels](), 0
    for first in waiting:
        if first not in new:
            continue
        row = [OPEN] * len(sizes)
        for factor, level in first:
            row[factor] = level
        own = cost(tuple(row))
        if own <= most:
            row = _filled(row, sizes, strength, rng, new, cost, max(usual, own))
            new.difference_update(levels_of(row, strength))
            rows.append(tuple(row))
        elif math.isinf(own):
            impossible += 1
        else:
            too_large.append(first)
    # A row that costs more may have some that begin none.
    return CoveringArray(tuple(rows), impossible, tuple(one for one in too_large if one in new))


def levels_of(row: Sequence[int], strength: int) -> Iterator[Levels]:
    """The combinations of levels that a row has; none of a factor that is open."""
    placed = [(factor, level) for factor, level in enumerate(row) if level != OPEN]
    yield from combinations(placed, strength)


def _all(sizes: Sequence[int], strength: int) -> Iterator[Levels]:
    for factors in combinations(range(len(sizes)), strength):
        for levels in product(*(range(sizes[factor]) for factor in factors)):
            yield tuple(zip(factors, levels, strict=True))


def _filled(
    row: list[int],
    sizes: Sequence[int],
    strength: int,
    rng: random.Random,
    new: set[Levels],
    cost: Cost,
    most: float,
) -> list[int]:
    """The row with a level for each factor that is open, as far as one keeps the cost."""
    left = [factor for factor, level in enumerate(row) if level == OPEN]
    for factor in rng.sample(left, len(left)):
        placed = [(f, level) for f, level in enumerate(row) if level != OPEN]
        partners = list(combinations(placed, strength - 1))
        gains = [
            (sum(_with(others, (factor, level)) in new for others in partners), rng.random(), level)
            for level in range(sizes[factor])
        ]
        for _, _, level in sorted(gains, reverse=True):
            row[factor] = level
            if cost(tuple(row)) <= most:
                break
            row[factor] = OPEN
    return row


def _with(others: Levels, one: tuple[int, int]) -> Levels:
    """Both, in the order of the factors."""
    for place, (factor, _) in enumerate(others):
        if factor > one[0]:
            return (*others[:place], one, *others[place:])
    return (*others, one)


# Levels of the dims in a covering array: extents of served calls and powers of two by themselves,
# as far as the number of cases allows, and what is left in groups.

Level = tuple[int, ...]
"""Extents that are one to a covering array; each case draws one of them."""
CASES = {2: (64, 36), 3: (144, 80)}
"""Cases that the levels of the largest factors may make necessary, by strength: about so many for a
task of few dims, and for one of more."""
FEW_DIMS = 4
TOKENS = {2: 5, 3: 4}
"""Levels of the dim that varies most in timed calls, by strength: kernels are written for ranges of
it, not for single extents."""
OTHER_BYTES = 2**18
"""Most bytes of a call with an extent that no timed call has and the least of all others. Larger
ones are drawn elsewhere (check/drawn_dims.py)."""


class _Levels:
    """Levels of one dim, which can be merged until few are left."""

    def __init__(self, lowest: int, served: Sequence[int], others: Sequence[int]) -> None:
        self.lowest, self.served, self.others = (lowest,), [(e,) for e in served], others
        self.groups = len(others)
        self.apart = True
        """The least extent is a level of its own."""

    def merge(self) -> bool:
        """One level less; whether that was possible. Served extents are never merged."""
        if self.groups > 1:
            self.groups -= 1
        elif self.apart and self.groups and self.served:
            self.apart = False
        else:
            return False
        return True

    @property
    def size(self) -> int:
        return self.apart + len(self.served) + self.groups

    def done(self) -> tuple[Level, ...]:
        others = list(self.others) if self.apart else [*self.lowest, *self.others]
        first = (self.lowest,) if self.apart else ()
        return (*first, *self.served, *_groups(others, self.groups))


def dim_levels(
    task: Task, strength: int, most_bytes: int, beside: Sequence[int]
) -> dict[str, tuple[Level, ...]]:
    """The levels of each dim: its least extent, those of timed calls that a call of `most_bytes` at
    most can have, and powers of two and extents of the task's own cases: each by itself, or of the
    dims that have most levels in groups of neighbors, as CASES says. `beside`: how many levels the
    other factors have."""
    tokens = most_varied(task)
    fixed = {tokens: _of_tokens(task, tokens, TOKENS[strength], most_bytes)}
    free = {name: _of(task, name, most_bytes) for name in task.dims if name != tokens}
    most = CASES[strength][len(task.dims) > FEW_DIMS]
    able = list(free)
    while able:
        sizes = [*beside, len(fixed[tokens]), *(levels.size for levels in free.values())]
        if math.prod(sorted(sizes)[-strength:]) <= most:
            break
        name = max(able, key=lambda name: free[name].size)
        if not free[name].merge():
            able.remove(name)
    return {name: fixed.get(name) or free[name].done() for name in task.dims}


def _of(task: Task, name: str, most_bytes: int) -> _Levels:
    timed = {case.dims[name] for case, _ in (*task.bench, *task.demo)}
    lowest = _lowest(task, name)
    served = [e for e in sorted(timed - {lowest}) if _bytes(task, name, e) <= most_bytes]
    dim = task.dims[name]
    usual = {2**k for k in range(dim.max.bit_length())} | set(dim.values)
    usual |= {case.dims[name] for case in task.check}
    others = _legal(task, name, usual - timed - {lowest})
    return _Levels(lowest, served, [e for e in others if _bytes(task, name, e) <= OTHER_BYTES])


def _of_tokens(task: Task, name: str, count: int, most_bytes: int) -> tuple[Level, ...]:
    """The least extent, and groups of as many octaves of powers of two, of timed extents and of
    those beside them."""
    lowest, timed = _lowest(task, name), {case.dims[name] for case, _ in (*task.bench, *task.demo)}
    usual = timed | {2**k for k in range(max(timed).bit_length())} | set(task.dims[name].values)
    near = _legal(task, name, {extent + by for extent in usual for by in (-1, 0, 1)})
    legal = [e for e in near if e > lowest and _bytes(task, name, e) <= most_bytes]
    octaves = sorted({extent.bit_length() for extent in legal})
    groups = _groups(octaves, count - 1)
    return ((lowest,), *(tuple(e for e in legal if e.bit_length() in group) for group in groups))


def _lowest(task: Task, name: str) -> int:
    return min(least(task, kind)[name] for kind in task.combinations)


def _legal(task: Task, name: str, extents: set[int]) -> list[int]:
    """Returns the extents that some dtype allows, ascending."""
    dim = task.dims[name]
    return sorted(e for e in extents if any(dim.allows(e, dtype) for dtype in task.dtypes))


def _bytes(task: Task, name: str, extent: int) -> float:
    """Returns the bytes of the smallest call with this extent and the least of all others; infinite
    where no size can be computed."""
    try:
        kinds = task.combinations
        return min(task.size_bytes(k.case({**least(task, k), name: extent})) for k in kinds)
    except ZeroDivisionError:
        return math.inf


def _groups(extents: Sequence[int], count: int) -> list[Level]:
    """Returns the extents in `count` groups of neighbors, as equal as can be; fewer where there are
    fewer extents."""
    count = min(count, len(extents))
    cuts = [len(extents) * place // max(1, count) for place in range(count + 1)]
    return [tuple(extents[a:b]) for a, b in pairwise(cuts)]
