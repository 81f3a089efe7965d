"""Extents of drawn cases that kernels are written for: those of served calls, and round ones.

A kernel may have a path of its own for one extent, or for a round one and its neighbours. Each is
drawn in one dim at a time, the others small, so that it meets all else that a caller may choose.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from astra_chat.tools.check.drawn_dims import (
    ROUND,
    Dims,
    least,
    legal,
    most_units,
    odd,
    within_bytes,
)
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task

WHOLE = (16, 8, 4, 2, 1)
"""What round extents are multiples of, the first that is legal and small enough."""
OCTAVES = 4
"""So many powers of two such extents are multiplied by."""


def at_served(
    task: Task, rng: random.Random, count: int, budget: int
) -> Iterator[tuple[Combination, Dims]]:
    """Each extent of a timed call, one dim at a time, with one combination of dtypes after the
    other as far as the count reaches; the other dims are drawn within a budget of bytes."""
    extents = sorted({(n, e) for case, _ in task.bench for n, e in case.dims.items()})
    kinds = {one: rng.sample(every := list(task.combinations), len(every)) for one in extents}
    turns = [
        (one, kinds[one][turn])
        for turn in range(len(task.combinations))
        for one in rng.sample(extents, len(extents))
    ]
    for (name, extent), kind in turns[:count]:
        yield from _with(task, kind, rng, budget, name, extent)


def beside_round(task: Task, kind: Combination, rng: random.Random, budget: int) -> Iterator[Dims]:
    """For each dim an extent one step below a round number, or one above it."""
    for name, dim in task.dims.items():
        step, dims = dim.step(kind.dtype), least(task, kind)
        high = most_units(task, kind, dims, name, within_bytes(task, kind, budget)) * step
        near = math.exp(rng.uniform(math.log(max(1, dims[name])), math.log(max(1, high))))
        base = rng.choice(ROUND)
        extent = max(1, round(near / base)) * base // step * step + rng.choice((-step, step))
        for _, found in _with(task, kind, rng, budget, name, extent):
            yield found


def all_round(task: Task, kind: Combination, rng: random.Random, budget: int) -> Dims:
    """Every dim a multiple of a round number, where that is legal and within the budget: only
    there kernels take their widest vectors."""
    dims, fits = least(task, kind), within_bytes(task, kind, budget)
    units = dict[str, int]()
    for name in rng.sample(list(dims), len(dims)):
        step = task.dims[name].step(kind.dtype)
        for whole in WHOLE:
            unit = math.lcm(whole, step)
            extent = task.dims[name].above(unit * -(-dims[name] // unit), kind.dtype)
            found = legal(task, kind, {**dims, name: extent}, [*units, name])
            if found and fits(found) and found[name] % whole == 0:
                dims, units[name] = found, unit
                break
    for name in rng.sample(list(units), len(units)):
        extent = dims[name] << rng.randrange(OCTAVES)
        found = legal(task, kind, {**dims, name: extent}, list(dims))
        if found and fits(found) and task.dims[name].allows(extent, kind.dtype):
            dims = found
    return dims


def _with(
    task: Task, kind: Combination, rng: random.Random, budget: int, name: str, extent: int
) -> Iterator[tuple[Combination, Dims]]:
    """A case with exactly this extent, if it is legal."""
    if task.dims[name].allows(extent, kind.dtype):
        dims = odd(task, kind, rng, budget, {name: extent})
        if dims[name] == extent:
            yield kind, dims
