"""Extents of drawn cases: boundaries, sizes at even distances over all that is legal, and calls
with more rows than a grid's second extent holds.

Sizes are even in the logarithm. Those at even distances start at a drawn place, so that no window
of sizes as wide as a distance lies between two of them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.contradictions import legal_points
from astra_chat.tools.task.domain import MAX_BYTES, Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.relations import settled
from astra_chat.tools.types import Case

Dims = dict[str, int]
GRID_LIMIT = 65_535
"""Largest second and third extent of a grid: an index that does not loop breaks beyond."""
FAR_BEYOND = 70_001
"""From here on no list of the field has a case."""
NEAR = 0.75
"""Share of the largest extent from which on one near it is drawn: what is wrong beyond some number
of rows is wrong there."""
MUCH = 4
"""Times its budget a case may take where relations between dims make it larger."""
MIN_ROWS_OF_MANY = 4096
"""From here on a call takes the virtual GPU tens of milliseconds."""
BESIDE_MANY, TRIES = 3, 2
"""Times their least other dims are, at most, beside many rows; and so often such are drawn."""
ROUND, ROUND_ONE_IN = (8, 16, 32, 64, 128, 256), 3
"""Extents that are multiples of these are drawn on purpose: there kernels take vectors and whole
tiles, which must keep to strides, addresses and absent arguments like all else."""
SHORT_US, ROW_US, BYTE_US = 40_000.0, 9.0, 0.03
"""What a short call takes the virtual GPU at most, and what a row and a byte take it, measured of
the shipped baselines: estimates, so that what is drawn depends on no clock."""


def least(task: Task, kind: Combination) -> Dims:
    """Each dim at its least legal extent, as far as the relations allow."""
    dims = {name: dim.nearest(dim.min, kind.dtype) for name, dim in task.dims.items()}
    return legal_near(task, kind, dims) or next(legal_points(task, kind))


def legal_near(
    task: Task, kind: Combination, dims: Dims, keep: Collection[str] = ()
) -> Dims | None:
    """These extents, or legal ones near them; None where there are none that keep what is kept."""
    scalars = task.usual_scalars
    found = settled(task.require, task.dims, dims, kind.dtype, keep, scalars)
    if found is None and not keep:
        return None
    if found is None:
        found = settled(task.require, task.dims, dims, kind.dtype, (), scalars)
    flawless = found and not any(True for _ in task.flaws(kind.case(found)))
    return found if flawless else None


def near_least(task: Task, kind: Combination, rng: random.Random) -> Dims:
    """Each dim at its least legal extent or a step or two above."""
    dims = least(task, kind)
    for name, dim in task.dims.items():
        step = dim.step(kind.dtype)
        dims[name] = min(dim.max // step * step, dims[name] + step * rng.randrange(3))
    return legal_near(task, kind, dims) or least(task, kind)


def odd(
    task: Task, kind: Combination, rng: random.Random, budget: int, fixed: Mapping[str, int] = {}
) -> Dims:
    """Odd multiples of each dim's step, some of them round numbers, as large as the budget of bytes
    allows, beside the fixed ones."""
    fixed = {name: task.dims[name].nearest(extent, kind.dtype) for name, extent in fixed.items()}
    dims, fits = {**least(task, kind), **fixed}, within_bytes(task, kind, budget)
    for name in rng.sample(list(dims), len(dims)):
        if name in fixed:
            continue
        step = task.dims[name].step(kind.dtype)
        low, high = max(1, dims[name] // step), most_units(task, kind, dims, name, fits)
        units = round(math.exp(rng.uniform(math.log(low), math.log(high))))
        units = units | 1 if units | 1 <= high else units - 1
        dims[name] = _now_and_then_round(step * max(low, min(high, units)), step, high * step, rng)
    found = legal_near(task, kind, dims, fixed)
    much = found and found != dims and not within_bytes(task, kind, MUCH * budget)(found)
    return found if found and not much else least(task, kind)


def _now_and_then_round(extent: int, step: int, most: int, rng: random.Random) -> int:
    """One extent in ROUND_ONE_IN becomes a multiple of a round number near it, if that is legal."""
    multiple = math.lcm(step, rng.choice(ROUND))
    if rng.randrange(ROUND_ONE_IN) or multiple > most:
        return extent
    return max(multiple, extent // multiple * multiple)


def at_boundaries(
    task: Task, kind: Combination, name: str, rng: random.Random, budget: int
) -> Iterator[Dims]:
    """The greatest extent of one dim in a short call, and powers of two with one step less or more;
    the other dims are drawn within a budget of bytes."""
    step, (low, high) = task.dims[name].step(kind.dtype), _short(task, kind, name)
    powers = [2**k for k in range(low.bit_length(), high.bit_length())] or [high]
    for units in (high, *(rng.choice(powers) + beside for beside in (-1, 0, 1))):
        yield odd(task, kind, rng, budget, {name: step * max(low, min(high, units))})


def at_even_distances(
    task: Task, kind: Combination, rng: random.Random, budget: int, octaves: float
) -> Iterator[Dims]:
    """For each dim sizes `octaves` apart from its least to the greatest of a short call; the other
    dims are drawn within a budget of bytes."""
    for name, dim in task.dims.items():
        step, (low, high) = dim.step(kind.dtype), _short(task, kind, name)
        if low == high:
            continue
        place = math.log2(low) + rng.random() * octaves
        while place <= math.log2(high):
            yield odd(task, kind, rng, budget, {name: step * max(low, round(2.0**place))})
            place += octaves


def of_many_rows(
    task: Task,
    rng: random.Random,
    octaves: float,
    most_rows: int,
    most: int,
    *,
    every_dtype: bool = False,
) -> Iterator[tuple[Combination, Dims]]:
    """For each dim that may be so large, sizes `octaves` apart up to a grid's limit, one far beyond
    it, near `most_rows`, or near the largest if it makes rows longer; then two dims that exceed it
    only together. The other dims are least or, where a call then has at most `most_rows`, two of
    them up to three times that; a call takes no more than `most` bytes. The dtype is drawn, or the
    sizes up to a grid's limit come in every one."""
    for name, dim in task.dims.items():
        if dim.max <= GRID_LIMIT:
            continue
        place = math.log2(MIN_ROWS_OF_MANY) + rng.random() * octaves
        while place < math.log2(GRID_LIMIT):
            for kind in task.combinations if every_dtype else (rng.choice(task.combinations),):
                yield from _within(task, kind, {name: round(2.0**place)}, most, rng, most_rows)
            place += octaves
        kind = rng.choice(task.combinations)
        step, dims = dim.step(kind.dtype), least(task, kind)
        fits = within_bytes(task, kind, most)
        high = most_units(task, kind, dims, name, fits) * step
        if rows_of(task, kind, {**dims, name: high}) > rows_of(task, kind, dims):
            high = min(most_rows, high)
        low = FAR_BEYOND if high > FAR_BEYOND else GRID_LIMIT + 1
        if low <= high:
            near = max(low, round(high * rng.uniform(NEAR, 1.0)))
            yield from _within(task, kind, {name: near}, most, rng, most_rows)
    names = list(task.dims)
    pairs = [(names[i], names[i + 1]) for i in range(len(names) - 1)]
    if pairs:
        kind = rng.choice(task.combinations)
        together = _beyond_together(task, kind, rng.choice(pairs), rng)
        if together:
            yield from _within(task, kind, together, most, rng)


def _within(
    task: Task,
    kind: Combination,
    fixed: Mapping[str, int],
    most: int,
    rng: random.Random,
    most_rows: int = 0,
) -> Iterator[tuple[Combination, Dims]]:
    """Least dims beside the fixed ones, rounded up to what is legal, up to two of them some times
    the least if a call then has no more than so many rows; none if too large."""
    dims = least(task, kind)
    fits, others = within_bytes(task, kind, most), [name for name in dims if name not in fixed]
    for name, extent in fixed.items():
        dims[name] = task.dims[name].above(extent, kind.dtype)
    for _ in range(TRIES):
        more = dict(dims)
        for name in rng.sample(others, min(len(others), rng.randint(0, 2))):
            extent = dims[name] * rng.randint(2, BESIDE_MANY)
            more[name] = task.dims[name].nearest(extent, kind.dtype)
        found = legal_near(task, kind, more, fixed)
        if found and more != dims and fits(found) and rows_of(task, kind, found) <= most_rows:
            yield kind, found
            return
    found = legal_near(task, kind, dims, fixed)
    if found and fits(found):
        yield kind, found


def _beyond_together(
    task: Task, kind: Combination, names: tuple[str, str], rng: random.Random
) -> Dims | None:
    """Two dims whose product is just beyond a grid's limit, neither of them by itself; None where
    the contract leaves no room for that."""
    first, second = names
    dims, steps = least(task, kind), {n: task.dims[n].step(kind.dtype) for n in names}
    most = {n: min(task.dims[n].max, GRID_LIMIT) for n in steps}
    low = max(dims[first], -(-(GRID_LIMIT + 1) // most[second]))
    high = min(most[first], GRID_LIMIT // max(dims[second], 2))
    if low > high:
        return None
    drawn = math.exp(rng.uniform(math.log(low), math.log(high)))
    dims[first] = -(-round(drawn) // steps[first]) * steps[first]
    wanted = -(-(GRID_LIMIT + 1) // dims[first])
    dims[second] = max(dims[second], -(-wanted // steps[second]) * steps[second])
    within = all(dims[n] <= most[n] for n in steps)
    return {n: dims[n] for n in names} if within else None


def _short(task: Task, kind: Combination, name: str) -> tuple[int, int]:
    """Least and greatest extent of a dim, in its steps, in a short call whose other dims are
    least."""
    dims = least(task, kind)
    low = max(1, dims[name] // task.dims[name].step(kind.dtype))

    def short(dims: Dims) -> bool:
        return estimated_us(task, kind, dims) <= SHORT_US

    return low, most_units(task, kind, dims, name, short)


def rows_of(task: Task, kind: Combination, dims: Dims) -> int:
    """Returns the number of rows of the argument that has most of them: the product of all extents
    but its last."""
    case = kind.case(dims)
    return max(math.prod(arg.shape_of(case)[:-1]) for arg in task.args)


def estimated_us(task: Task, kind: Combination, dims: Mapping[str, int]) -> float:
    """Returns about what a call takes the virtual GPU, in us; infinity where an extent divides by
    zero."""
    try:
        rows, size = rows_of(task, kind, dict(dims)), task.size_bytes(kind.case(dims))
    except ZeroDivisionError:
        return math.inf
    return ROW_US * rows + BYTE_US * size


def of_many_entries(task: Task, kind: Combination, arg: Arg, most_bytes: int) -> Dims | None:
    """Returns dims that give the argument as many elements as fit in a call of `most_bytes`, with
    all others at their least; None where the relations between dims allow no such call."""
    return _with_most(task, kind, list(task.dims), partial(_entries, [arg]), most_bytes)


def of_long_tables(task: Task, kind: Combination, most_bytes: int) -> Iterator[Dims]:
    """Yields calls of at most `most_bytes` in which index arguments make loops long, beyond all
    short calls: a dim that counts their entries as large as fits, unless calls of many rows have
    it so large; and as great lengths as fit, which are extents that the data state. All other dims
    are least."""
    args = [arg for arg in task.args if arg.index is not None]
    for name, dim in task.dims.items():
        short = _short(task, kind, name)[1] * dim.step(kind.dtype)
        if short < dim.nearest(dim.max, kind.dtype) and dim.max <= GRID_LIMIT:
            found = _with_most(task, kind, [name], partial(_entries, args), most_bytes)
            if found and found[name] > short:
                yield found
    for arg in args:
        if arg.index is not None and arg.index.kind == "lengths":
            few_first = sorted(task.dims, key=lambda name: task.dims[name].max)
            greatest = partial(_greatest_index, arg)
            if found := _with_most(task, kind, few_first, greatest, most_bytes):
                yield found


def _greatest_index(arg: Arg, case: Case) -> int:
    assert arg.index is not None
    return arg.index.bounds(arg.names_in(case))[1]


def _entries(args: Sequence[Arg], case: Case) -> int:
    return sum(math.prod(arg.shape_of(case)) for arg in args)


def _with_most(
    task: Task,
    kind: Combination,
    names: Sequence[str],
    measured: Callable[[Case], int],
    most_bytes: int,
) -> Dims | None:
    """Returns dims of a call of `most_bytes` in which those of `names` that add to what is measured
    are as large as fits, one after the other, and all others least."""
    low, fits = least(task, kind), within_bytes(task, kind, most_bytes)
    grown, dims = list[str](), low
    for name in names:
        more = {**low, name: 2 * max(1, low[name])}
        if measured(kind.case(more)) > measured(kind.case(low)):
            grown.append(name)
            units = most_units(task, kind, dims, name, fits)
            dims = {**dims, name: units * task.dims[name].step(kind.dtype)}
    return legal_near(task, kind, dims, grown)


def most_units(
    task: Task, kind: Combination, dims: Dims, name: str, fits: Callable[[Dims], bool]
) -> int:
    """Returns the largest legal extent of a dim, in its steps, with which the call fits; at least
    the one in `dims`."""
    step = task.dims[name].step(kind.dtype)
    low, high = max(1, dims[name] // step), task.dims[name].max // step
    if fits({**dims, name: high * step}):
        return high
    while low < high - 1:  # a call grows with every dim
        middle = (low + high) // 2
        if fits({**dims, name: middle * step}):
            low = middle
        else:
            high = middle
    return low


def within_bytes(task: Task, kind: Combination, most: int) -> Callable[[Dims], bool]:
    def within(dims: Dims) -> bool:
        try:
            return task.size_bytes(kind.case(dims)) <= most
        except ZeroDivisionError:
            return False

    return within


Ends = list[tuple[Combination, Dims]]


def at_ends(task: Task, rng: random.Random) -> tuple[Ends, tuple[str, ...]]:
    """For each dim that exceeds a grid's second extent a call with its greatest extent, of a drawn
    combination of dtypes among those with which it is small enough; and the dims that have none, as
    text."""
    found, left_out = Ends(), list[str]()
    for name, calls in _calls(task):
        small = [(kind, dims) for kind, dims in calls if task.is_small(kind.case(dims))]
        if small:
            found.append(rng.choice(small))
        else:
            size = f"takes more than {MAX_BYTES // 2**20} MiB"
            greatest = task.dims[name].max
            left_out.append(f"{name}: a call with {greatest:,}, its largest extent, {size}")
    return found, tuple(left_out)


def too_large_ends(task: Task) -> list[Case]:
    """For each of these dims without a call that is small enough, the smallest."""
    ends = [[kind.case(dims) for kind, dims in calls] for _, calls in _calls(task)]
    return [min(of, key=task.buffer_bytes) for of in ends if of and not any(map(task.is_small, of))]


def _calls(task: Task) -> Iterator[tuple[str, Ends]]:
    """For each dim that exceeds a grid's second extent the calls with its greatest, by dtypes."""
    for name, dim in task.dims.items():
        if dim.max > GRID_LIMIT:
            calls = ((kind, _at_end(task, kind, name)) for kind in task.combinations)
            yield name, [(kind, dims) for kind, dims in calls if dims]


def _at_end(task: Task, kind: Combination, name: str) -> Dims | None:
    """Others least, or as large as relations ask; None where that is not legal."""
    greatest = task.dims[name].nearest(task.dims[name].max, kind.dtype)
    dims = legal_near(task, kind, {**least(task, kind), name: greatest}, [name])
    return dims if dims and dims[name] == greatest else None
