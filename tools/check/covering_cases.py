"""Covering cases: in few calls every pair, or triple, of what kernels are instantiated for.

A fault of one instantiation shows in no call that another serves. So the dtypes, booleans, named
scalars, absent arguments, alignments and extents of a task are factors of a covering array
(check/covering.py), each of a few levels: in every check all pairs of them are called, in a
confirmation all triples. Within a level of several extents, and in what a row leaves open, values
are drawn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

from astra_chat.tools.check.covering import OPEN, CoveringArray, Row, covering_array
from astra_chat.tools.check.covering_levels import FEW_DIMS, dim_levels
from astra_chat.tools.check.covering_options import Option, options_of
from astra_chat.tools.check.drawn_dims import Dims, least
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
