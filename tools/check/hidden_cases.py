"""Hidden cases: drawn from the legal domain after a candidate is built, so that it cannot know
them.

Per dtype: the least extents, odd ones that are not powers of two, heavy tails, zeros and ones, and
a random family. Per dim that may exceed it, one case beyond a grid's second extent; and one where
two dims exceed it only together, as the blocks of a kernel with a block per row and head do.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import pairwise

from astra_chat.tools.entropy import Seed
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, DeviceKind, DTypeName, ValueFamily

BUDGET_BYTES: dict[DeviceKind, int] = {"virtual": 2**17, "cuda": 2**21}
"""Least bytes of one drawn case: the virtual GPU stays quick."""
LONG_BUDGET_BYTES: dict[DeviceKind, int] = {"virtual": 2**23, "cuda": 2**25}
"""The same for a case beyond a grid's limit."""
GRID_LIMIT = 65_535
"""Largest second and third extent of a grid: an index that does not loop breaks beyond."""
BEYOND_GRID = 70_000
CHANCE: tuple[ValueFamily, ...] = ("large", "tiny", "denormal", "ramp", "one_hot", "special")
SEED_BITS = 48
Weighted = tuple[tuple[Case, float], ...]
"""Cases to time, each with its weight."""


def draw(task: Task, device: DeviceKind, rng: random.Random) -> tuple[Case, ...]:
    """Hidden cases of one candidate; all lie in the contract's domain."""
    budget = BUDGET_BYTES[device]
    cases = []
    for dtype in task.dtypes:
        for extents, family in (
            (_least, rng.choice(CHANCE)),
            (_odd, "normal"),
            (_odd, "heavy_tail"),
            (_odd, "binary"),
            (_odd, rng.choice(CHANCE)),
        ):
            cases.append(_case(task, dtype, extents(task, dtype, rng, budget), family, rng))
    pairs = list(pairwise(task.dims))
    long: list[tuple[str, ...]] = [(name,) for name in task.dims]
    long += [rng.choice(pairs)] if pairs else []
    for names in long:
        dtype = rng.choice(task.dtypes)
        beyond = _beyond_grid if len(names) == 1 else _beyond_together
        dims = beyond(task, dtype, names, rng)
        if dims and task.least_bytes(Case(dims=dims, dtype=dtype)) <= LONG_BUDGET_BYTES[device]:
            cases.append(_case(task, dtype, dims, "normal", rng))
    return tuple(cases)


def twin(case: Case, rng: random.Random) -> Case:
    """The same call on other numbers: what is remembered from the first is wrong for it."""
    return case.model_copy(update={"seed": _seed(rng)})


def seeded(case: Case, seed: int) -> Case:
    """A case of the task's list, whose seed is the judge's to draw unless the list states one."""
    return case if case.seed else case.model_copy(update={"seed": seed})


def reseeded(weighted: Weighted, seed: Seed) -> Weighted:
    """Cases to time on numbers that no candidate has met."""
    drawn = [1 + seed.of("timed case", place).bits(SEED_BITS) for place in range(len(weighted))]
    return tuple(
        (case.model_copy(update={"seed": one}), weight)
        for (case, weight), one in zip(weighted, drawn, strict=True)
    )


def _case(
    task: Task, dtype: DTypeName, dims: dict[str, int], family: ValueFamily, rng: random.Random
) -> Case:
    """Strides, addresses and scalars too are the caller's choice; strides as the task's own cases
    have, scalars as the task says."""
    known = sorted({case.pad for case in task.check})
    pads = {arg.name: rng.choice(known) for arg in task.args if arg.strided}
    drawn = {s.name: rng.choice((s.value, *s.others)) for s in task.scalars if s.others}
    return Case(
        dims=dims, dtype=dtype, values=family, seed=_seed(rng), pads=pads,
        offset=rng.choice((0, 1, 3)), scalars=drawn,
    )  # fmt: skip


def _seed(rng: random.Random) -> int:
    return 1 + rng.getrandbits(SEED_BITS)


def _least(task: Task, dtype: DTypeName, rng: random.Random, budget: int) -> dict[str, int]:
    """Each dim at its least legal extent or a step or two above."""
    dims = _smallest(task, dtype)
    for name, dim in task.dims.items():
        step = dim.step(dtype)
        dims[name] = min(dim.max // step * step, dims[name] + step * rng.randrange(3))
    return dims


def _odd(task: Task, dtype: DTypeName, rng: random.Random, budget: int) -> dict[str, int]:
    """Odd multiples of each dim's step, even in the logarithm, as large as the budget allows."""
    dims = _smallest(task, dtype)
    for name in rng.sample(list(dims), len(dims)):
        step, high = task.dims[name].step(dtype), task.dims[name].max // task.dims[name].step(dtype)
        low = max(1, dims[name] // step)
        while high > low and _bytes(task, dtype, {**dims, name: high * step}) > budget:
            high = max(low, high // 2)
        units = round(math.exp(rng.uniform(math.log(low), math.log(high))))
        dims[name] = step * max(low, min(high, units | 1 if units | 1 <= high else units - 1))
    return dims


def _beyond_grid(
    task: Task, dtype: DTypeName, names: Sequence[str], rng: random.Random
) -> dict[str, int] | None:
    """A dim beyond a grid's limit, the others least; None where the contract stops before."""
    (name,) = names
    step = task.dims[name].step(dtype)
    low, high = GRID_LIMIT // step + 1, min(task.dims[name].max, BEYOND_GRID) // step
    if high < low:
        return None
    return {**_smallest(task, dtype), name: step * rng.randint(low, high)}


def _beyond_together(
    task: Task, dtype: DTypeName, names: Sequence[str], rng: random.Random
) -> dict[str, int] | None:
    """Two dims whose product is just beyond a grid's limit, neither of them by itself, the others
    least; None where the contract leaves no room for that."""
    first, second = names
    dims, steps = _smallest(task, dtype), {n: task.dims[n].step(dtype) for n in (first, second)}
    most = {n: min(task.dims[n].max, GRID_LIMIT) for n in steps}
    low = max(dims[first], -(-(GRID_LIMIT + 1) // most[second]))
    high = min(most[first], GRID_LIMIT // max(dims[second], 2))
    if low > high:
        return None
    drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    dims[first] = -(-round(drawn) // steps[first]) * steps[first]
    least = -(-(GRID_LIMIT + 1) // dims[first])
    dims[second] = max(dims[second], -(-least // steps[second]) * steps[second])
    legal = all(dims[n] <= most[n] for n in steps)
    return dims if legal else None


def _smallest(task: Task, dtype: DTypeName) -> dict[str, int]:
    steps = {name: dim.step(dtype) for name, dim in task.dims.items()}
    return {name: -(-dim.min // steps[name]) * steps[name] for name, dim in task.dims.items()}


def _bytes(task: Task, dtype: DTypeName, dims: dict[str, int]) -> int:
    return task.least_bytes(Case(dims=dims, dtype=dtype))
