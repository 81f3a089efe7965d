"""Extents of drawn cases in which several dims are large at once, or near those of served calls.

What is wrong only beyond two bounds at once, of rows and of their length, shows in no case whose
other dims are small. Such cases take megabytes, so they are few: groups of dims take
turns with the seed, and sizes are spread over all that the bytes allow.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from astra_chat.tools.check.drawn_dims import (
    Dims,
    estimated_us,
    least,
    legal_near,
    most_units,
    within_bytes,
)
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task

LEAST_BYTES, MOST_BYTES = 2**21, 2**23
"""Range of the most bytes of a case with several large dims, drawn evenly in the logarithm."""
MOST_US = 300_000.0
"""Most time of such a case on the virtual GPU, estimated from its rows and bytes."""
LARGER_BYTES, LARGER_US = (2**25, 2**26), 2_500_000.0
"""Range of the most bytes, and most time on the virtual GPU, of a larger case, as are all beside a
served call."""
WHOLE, ODD_ONE_IN = 16, 3
"""What large extents are rounded to, where that is legal, but one in so many: kernels take their
vectors there, and have a path of their own for the rest of a row or of a tile."""
LARGE = 8
"""Times its least extent: a dim that cannot be so large is in no group."""
SHARES = (0.2, 0.8)
"""Range of the share that the first dim of a pair takes of their room, in the logarithm; the second
takes the rest."""
FACTORS = (0.6, 1.5)
"""How far from a served extent others are drawn."""
KEPT_ONE_IN = 3
"""Extents of a served call of which one, on average, stays as it is."""
TRIES, FEWER = 4, 2
"""Beside served calls: how many are looked at for each one, as some are too large in all else; and
the share of the most that fits from which on an extent is drawn."""
ODD_ONE_LESS = 4
"""Even numbers of tokens beside a served call of which all but one, on average, are made odd."""
CUT = (0.6, 0.75)
"""Range of the share that is left of a dim that is cut."""
CUT_ELSE_ONE_IN = 2
"""Cuts of a too large call of which one, on average, takes a dim at random; the others take the dim
farthest above its least."""


def large_together(
    task: Task, rng: random.Random, count: int, *, larger: bool = False
) -> Iterator[tuple[Combination, Dims]]:
    """Cases in which the dims of a group are far above their least, the others near it: of two
    dims, of all that can be large, of three."""
    places = [(number + rng.random()) / count for number in range(count)]
    rng.shuffle(places)
    turns = dict[int, list[tuple[str, ...]]]()
    for number, place in enumerate(places):
        kind = task.combinations[number % len(task.combinations)]
        fits = _fitting(task, kind, rng, larger)
        names = _able(task, kind, fits)
        size = min((2, len(names), 3)[number % 3], len(names))
        if size < 2:
            continue
        every = list(combinations(names, size))
        waiting = turns.get(size) or rng.sample(every, len(every))
        group, turns[size] = waiting[0], waiting[1:]
        found = _grown(task, kind, rng.sample(group, size), place, rng, fits)
        if found:
            yield kind, _rounded(task, kind, found, group, rng, fits)


def near_served(
    task: Task, rng: random.Random, count: int, *, larger: bool = False
) -> Iterator[tuple[Combination, Dims]]:
    """Extents near those of calls that are timed, odd ones among them: there all dims are large.
    What is too large for a case is cut."""
    for kind, served in _served(task, rng, count):
        free = [name for name in served if rng.randrange(KEPT_ONE_IN)]
        fits = _fitting(task, kind, rng, larger)
        found = _cut(task, kind, _moved(served, free, rng), rng, fits)
        if found:
            yield kind, _rounded(task, kind, found, free, rng, fits)


def beside_served(task: Task, rng: random.Random, count: int) -> Iterator[tuple[Combination, Dims]]:
    """Calls that are timed but for one extent, by turns that which varies most and another: a path
    for a served head, row or number of experts begins at so many tokens, and is met by any number
    of them, most often an odd one. Beside another extent that one is cut to what fits."""
    tokens, found_so_far = most_varied(task), 0
    others = [name for name in task.dims if name != tokens] or [tokens]
    for kind, served in _served(task, rng, TRIES * count):
        if found_so_far == count:
            return
        name = rng.choice(others) if found_so_far % 2 else tokens
        fits = _fitting(task, kind, rng, larger=True)
        found = _but_for(task, kind, served, name, tokens, rng, fits)
        if found:
            found_so_far += 1
            yield kind, found


def _but_for(
    task: Task,
    kind: Combination,
    served: Dims,
    name: str,
    tokens: str,
    rng: random.Random,
    fits: Callable[[Dims], bool],
) -> Dims | None:
    """The served extents with another of this name: some that fit, as a rule an odd number of
    tokens."""
    low, step = least(task, kind), task.dims[name].step(kind.dtype)
    dims = {**served, name: low[name]}
    while not fits(dims) and name != tokens and dims[tokens] // 2 > low[tokens]:
        dims[tokens] = task.dims[tokens].nearest(dims[tokens] // 2, kind.dtype)
    if not fits(dims):
        return None
    high = most_units(task, kind, dims, name, fits) * step
    few = max(1, low[name], high // FEWER)
    extent = round(math.exp(rng.uniform(math.log(few), math.log(high))))
    if extent % 2 == 0 and name == tokens and rng.randrange(ODD_ONE_LESS):
        extent -= 1
    dims[name] = task.dims[name].nearest(extent, kind.dtype)
    found = legal_near(task, kind, dims, list(dims))
    return found if found and fits(found) else None


def most_varied(task: Task) -> str:
    """The dim whose extents are farthest apart in timed calls: mostly the number of tokens."""

    def apart(name: str) -> float:
        extents = [case.dims[name] for case, _ in task.bench]
        return max(extents) / max(1, min(extents))

    return max(task.dims, key=apart)


def _served(task: Task, rng: random.Random, count: int) -> Iterator[tuple[Combination, Dims]]:
    """Dims of timed calls of the larger half, by turns with dtypes as they are timed and any."""
    cases = sorted((case for case, _ in task.bench), key=task.least_bytes)
    timed = cases[len(cases) // 2 :]
    turns = [case for _ in range(-(-count // len(timed))) for case in rng.sample(timed, len(timed))]
    for number, case in enumerate(turns[:count]):
        kind = task.combinations[number // 2 % len(task.combinations)]
        as_timed = Combination.of(case)
        known = number % 2 and as_timed in task.combinations
        yield (as_timed if known else kind), dict(case.dims)


def _moved(served: Dims, free: Sequence[str], rng: random.Random) -> Dims:
    return {
        name: round(extent * rng.uniform(*FACTORS)) if name in free else extent
        for name, extent in served.items()
    }


def _cut(
    task: Task,
    kind: Combination,
    dims: Dims,
    rng: random.Random,
    fits: Callable[[Dims], bool],
) -> Dims | None:
    """Legal dims that fit: cut in the dim farthest above its least, or sometimes in another."""
    low = least(task, kind)
    dims = {name: max(low[name], extent) for name, extent in dims.items()}
    while not fits(dims):
        able = [name for name in dims if dims[name] > LARGE * low[name]]
        if not able:
            break
        name = max(able, key=lambda name: dims[name] / max(1, low[name]))
        if rng.randrange(CUT_ELSE_ONE_IN) == 0:
            name = rng.choice(able)
        dims[name] = max(low[name], int(dims[name] * rng.uniform(*CUT)))
    dims = {name: task.dims[name].nearest(extent, kind.dtype) for name, extent in dims.items()}
    found = legal_near(task, kind, dims)
    return found if found and fits(found) else None


def _rounded(
    task: Task,
    kind: Combination,
    dims: Dims,
    names: Sequence[str],
    rng: random.Random,
    fits: Callable[[Dims], bool],
) -> Dims:
    """Most of these extents made round, as far as that is legal and fits."""
    for name in names:
        whole = math.lcm(WHOLE, task.dims[name].step(kind.dtype))
        if dims[name] >= whole and rng.randrange(ODD_ONE_IN):
            extent = dims[name] // whole * whole
            found = legal_near(task, kind, {**dims, name: extent})
            if found and found[name] == extent and fits(found):
                dims = found
    return dims


def _fitting(
    task: Task,
    kind: Combination,
    rng: random.Random,
    larger: bool,
) -> Callable[[Dims], bool]:
    """Whether a call of these dims is no larger than a size between two, nor takes too long."""
    sizes, most_us = (LARGER_BYTES, LARGER_US) if larger else ((LEAST_BYTES, MOST_BYTES), MOST_US)
    most = round(math.exp(rng.uniform(*map(math.log, sizes))))
    within = within_bytes(task, kind, most)

    def fits(dims: Dims) -> bool:
        return within(dims) and estimated_us(task, kind, dims) <= most_us

    return fits


def _able(task: Task, kind: Combination, fits: Callable[[Dims], bool]) -> list[str]:
    """Dims that can be large."""
    dims = least(task, kind)
    steps = {name: dim.step(kind.dtype) for name, dim in task.dims.items()}
    most = {name: most_units(task, kind, dims, name, fits) * steps[name] for name in dims}
    return [name for name in dims if most[name] >= LARGE * dims[name]]


def _grown(
    task: Task,
    kind: Combination,
    names: list[str],
    place: float,
    rng: random.Random,
    fits: Callable[[Dims], bool],
) -> Dims | None:
    """The first of these dims take their shares of the room that the bytes leave, the last what is
    left; the others are up to three times their least, one of them larger where there is room."""
    dims = least(task, kind)
    others = [name for name in rng.sample(list(dims), len(dims)) if name not in names]
    for name in others:
        beside = task.dims[name].nearest(dims[name] * rng.randint(1, 3), kind.dtype)
        dims = {**dims, name: beside} if fits({**dims, name: beside}) else dims
    for left, name in zip(range(len(names), -1, -1), [*names, *others[:1]], strict=False):
        step = task.dims[name].step(kind.dtype)
        low, high = max(1, dims[name] // step), most_units(task, kind, dims, name, fits)
        room = math.log(high / low)
        share = rng.random()
        if left == 1:
            share = 1 - share * min(1.0, math.log(2) / max(room, 1e-9))
        elif left:
            share = (SHARES[0] + (SHARES[1] - SHARES[0]) * place) * 2 / left
            place = rng.random()
        units = max(low, min(high, round(low * math.exp(room * share))))
        units += rng.randrange(2) if units < high else 0
        dims[name] = task.dims[name].nearest(units * step, kind.dtype)
    found = legal_near(task, kind, dims, names) or legal_near(task, kind, dims)
    return found if found and fits(found) else None
