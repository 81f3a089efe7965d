"""Choice by shape: two points of a space, told apart by one extent or by the product of all.

A table is fitted to the cases that were timed, and the more rules there are to choose from, the
better the best of them looks there. So it counts only where it gains on other shapes, held out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from astra_chat.tools.check.hidden_cases import Weighted, reseeded
from astra_chat.tools.entropy import Seed
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Value

LEAST_HELD_OUT, MOST_HELD_OUT = 2, 8
"""Shapes that a table must gain on. With fewer that are legal there is no table. As many others say
where between two timed shapes its limit lies."""


class ShapeTable(Value):
    """A choice by shape, taken or not."""

    condition: str
    """C, over the launcher's extents: where it holds, `below` is meant."""
    below: dict[str, int]
    above: dict[str, int]
    tuned_gain: float
    """Speed over the best single choice on the cases of the tuning: to be taken with salt."""
    held_out: tuple[str, ...] = ()
    """Shapes that no tuning has met."""
    gain: float | None = None
    """Speed over the best single choice on the shapes held out; None where nothing was timed
    there."""
    least: float = 1.0
    """Gain from which on the table is no tie with the single choice."""
    why: str = ""
    """Why the single choice stays; "" where the table is taken."""


@dataclass(frozen=True)
class Split:
    """A rule with two points."""

    condition: str
    below: int
    above: int
    gain: float
    """Speed over the best single point, on the cases that it was fitted to."""


def best_split(weighted: Weighted, ratios: Mapping[int, Sequence[float]]) -> Split | None:
    """The rule with the largest gain; `ratios` of each point over the baseline, case by case. None
    where no rule is faster than one point alone."""
    logs = {point: [math.log(ratio) for ratio in own] for point, own in ratios.items()}
    total = sum(weight for _, weight in weighted)

    def best(places: Sequence[int]) -> tuple[float, int]:
        """Sum over these cases of the point that is best there."""
        sums = {p: sum(weighted[i][1] * own[i] for i in places) for p, own in logs.items()}
        point = max(sums, key=lambda p: sums[p])
        return sums[point], point

    found: Split | None = None
    single, _ = best(range(len(weighted)))
    for dims in _quantities(weighted):
        values = [_value(case, dims) for case, _ in weighted]
        for low, high in pairwise(sorted(set(values))):
            below, first = best([i for i, value in enumerate(values) if value <= low])
            above, second = best([i for i, value in enumerate(values) if value > low])
            gain = math.exp((below + above - single) / total)
            if first != second and gain > (found.gain if found else 1.0):
                limit = math.isqrt(low * high)
                found = Split(f"{' * '.join(dims)} <= {limit}", first, second, gain)
    return found


def shapes_between(task: Task, weighted: Weighted, seed: Seed) -> tuple[Weighted, Weighted]:
    """Shapes between those of two timed cases of the same dtypes, each of which is legal and was
    not timed, drawn by `seed`: those to fit a limit by, and at most MOST_HELD_OUT held out."""
    known = {_shape(case) for case, _ in weighted}
    found: dict[object, tuple[Case, float]] = {}
    for (one, weight), (other, more) in combinations(weighted, 2):
        if (one.dtype, one.types) != (other.dtype, other.types):
            continue
        dims = {name: _between(one.dims[name], other.dims[name]) for name in one.dims}
        case = one.model_copy(update={"dims": dims})
        if _shape(case) in known | found.keys() or not _legal(task, case):
            continue
        found[_shape(case)] = case, math.sqrt(weight * more)
    drawn = list(found.values())
    seed.of("which").random().shuffle(drawn)
    fresh = reseeded(tuple(drawn[: 2 * MOST_HELD_OUT]), seed)
    return fresh[1::2], fresh[::2]


def _quantities(weighted: Weighted) -> list[tuple[str, ...]]:
    """What a rule may look at; of equally good rules the first stays: the size of the call."""
    names = tuple(weighted[0][0].dims)
    return [*([names] if len(names) > 1 else []), *((name,) for name in names)]


def _value(case: Case, dims: Sequence[str]) -> int:
    return math.prod(case.dims[name] for name in dims)


def _between(low: int, high: int) -> int:
    """A number about their geometric mean, and a multiple of whatever both are multiples of."""
    step = math.gcd(low, high) or 1
    return max(1, round(math.sqrt(low * high) / step)) * step


def _shape(case: Case) -> object:
    return case.dtype, tuple(case.types.items()), tuple(case.dims.values())


def _legal(task: Task, case: Case) -> bool:
    try:
        task.require_legal(case)
    except ValueError:
        return False
    return True
