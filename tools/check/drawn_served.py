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
    legal_near,
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
    """Extents of timed calls, one dim after the other: each extent of a dim comes with every
    combination of dtypes, as far as the count reaches; the other dims are drawn within a budget of
    bytes."""
    waiting = dict[str, list[tuple[Combination, int]]]()
    for name in task.dims:
        extents = sorted({case.dims[name] for case, _ in task.bench})
        waiting[name] = [
            (kind, extent)
            for kind in rng.sample(task.combinations, len(task.combinations))
            for extent in rng.sample(extents, len(extents))
        ]
    for _ in range(count):
        if not waiting:
            return
        name = next(iter(waiting))
        turns = waiting.pop(name)
        yield from _with(task, turns[0][0], rng, budget, name, turns[0][1])
        if turns[1:]:
            waiting[name] = turns[1:]


def at_usual(
    task: Task, rng: random.Random, count: int, budget: int
) -> Iterator[tuple[Combination, Dims]]:
    """One dim after the other, a power of two or three times that: what kernels are instantiated
    for, beside what is timed. The other dims are drawn within a budget of bytes."""
    waiting = dict[str, list[int]]()
    for number in range(count):
        kind = rng.choice(task.combinations)
        name = list(task.dims)[number % len(task.dims)]
        dim, dims = task.dims[name], least(task, kind)
        step = dim.step(kind.dtype)
        high = most_units(task, kind, dims, name, within_bytes(task, kind, budget)) * step
        usual = [e << k for k in range(high.bit_length()) for e in (1, 3) if e << k <= high]
        legal_ones = [extent for extent in usual if dim.allows(extent, kind.dtype)]
        left = waiting.get(name) or rng.sample(legal_ones, len(legal_ones))
        if left:
            waiting[name] = left[1:]
            yield from _with(task, kind, rng, budget, name, left[0])


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
            found = legal_near(task, kind, {**dims, name: extent}, [*units, name])
            if found and fits(found) and found[name] % whole == 0:
                dims, units[name] = found, unit
                break
    for name in rng.sample(list(units), len(units)):
        extent = dims[name] << rng.randrange(OCTAVES)
        found = legal_near(task, kind, {**dims, name: extent}, list(dims))
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
