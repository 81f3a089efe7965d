"""Cases whose arguments hold the numbers that a candidate knows by heart, among drawn ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np

from astra_chat.tools.case import SEED_BITS
from astra_chat.tools.check.drawn_dims import Dims, least, legal_near, within_bytes
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.check.floats import as_float
from astra_chat.tools.known import KnownNumbers
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.expressions import parse
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName, ValueFamily, is_float

MOST_PLANTED = 24
"""Numbers of one argument in a case."""
ROWS = 240
"""Rows of the arguments, where that is legal: each number has rows of its own."""
REPEATS_OF_REST, ABOVE = 3, 2
"""Indices with one rest, and by how much a table exceeds what is to be an index of it."""
MOST_INDICES = 72
"""Numbers that are planted in an index, over several cases."""
MODERATE = 16.0
"""Numbers up to this magnitude are planted together. Larger ones of one sign have a case of their
own: sums of large numbers of both signs cancel, and no tolerance holds for what is left."""
PLANTED_BYTES, INDEXED_BYTES = 2**18, 2**23
"""Most bytes of a case, and of one whose tables are large enough for an index."""
UNSTATED: tuple[ValueFamily, ...] = ("normal", "large")
"""Families of arguments that only reference.py draws: numbers are planted among theirs, none
beyond."""
WIDTH, WIDTH_STEPS = 40, 3
"""Elements of a row, about; and so many steps of a dim that it is at least."""


def planted_cases(task: Task, known: KnownNumbers, rng: random.Random) -> Iterator[Case]:
    """For each combination of dtypes a case of moderate numbers, one of larger numbers of each
    sign, and for each index one whose table is large enough."""
    readable = [arg for arg in task.args if arg.read]
    indexed = [arg for arg in readable if arg.index is not None]
    for place, kind in enumerate(task.combinations):
        dims = _dims(task, kind)
        for low, high in ((-MODERATE, MODERATE), (MODERATE, 3e38), (-3e38, -MODERATE)):
            case = kind.case(dims)
            planted = dict[str, tuple[float, ...]]()
            for arg in readable:
                values = _values(arg, arg.dtype_of(case), known, low, high)
                if values:
                    planted[arg.name] = tuple(values[:MOST_PLANTED])
            moderate = low < 0 < high
            if any(arg.name in planted and not arg.has_families for arg in readable):
                family = UNSTATED[place % 2] if moderate else "large"
                case = case.model_copy(update={"values": family})
            if planted:
                yield _drawn(case, planted, rng)
    for number, arg in enumerate(indexed):
        kind = task.combinations[number % len(task.combinations)]
        yield from _indexed(task, kind, arg, known, rng)


def _drawn(case: Case, planted: dict[str, tuple[float, ...]], rng: random.Random) -> Case:
    seed = 1 + rng.getrandbits(SEED_BITS)
    return case.model_copy(update={"planted": planted, "seed": seed})


def _values(
    arg: Arg, dtype: DTypeName, known: KnownNumbers, low: float, high: float
) -> list[float]:
    """The numbers between two ends that a float argument may hold."""
    if not is_float(dtype) or arg.index is not None:
        return []
    values = [*known.values, *_of_bits(known.bits, dtype)]
    return [v for v in dict.fromkeys(values) if low < v <= high and arg.may_hold(v)]


def _of_bits(bits: Sequence[int], dtype: DTypeName) -> Iterator[float]:
    """The finite numbers whose bits these are, also where several stand side by side."""
    width = ITEM_BYTES[dtype]
    for word in bits:
        content = np.frombuffer((word % 2**64).to_bytes(8, "little"), np.uint8)
        for start in range(0, 8, width):
            (value,) = as_float(content[start : start + width], dtype)
            if np.isfinite(value) and value:
                yield float(value)


def _dims(task: Task, kind: Combination) -> Dims:
    """Rows of some elements, and as many rows as each number wants of its own."""
    dims, fits = least(task, kind), within_bytes(task, kind, PLANTED_BYTES)
    tokens = most_varied(task)
    for name, dim in task.dims.items():
        few = dim.nearest(
            max(dims[name], min(WIDTH, WIDTH_STEPS * dim.step(kind.dtype))), kind.dtype
        )
        found = legal_near(task, kind, {**dims, name: few})
        if name != tokens and found and fits(found):
            dims = found
    rows = ROWS
    while rows > dims[tokens]:
        found = legal_near(task, kind, {**dims, tokens: task.dims[tokens].above(rows, kind.dtype)})
        if found and fits(found):
            return found
        rows //= 2
    return dims


def _indexed(
    task: Task, kind: Combination, arg: Arg, known: KnownNumbers, rng: random.Random
) -> Iterator[Case]:
    """A case whose index holds the legal ones of these numbers, with a table that is large enough
    for most of them."""
    assert arg.index is not None
    dims, fits = _dims(task, kind), within_bytes(task, kind, INDEXED_BYTES)
    names = [name for name in task.dims if name in parse(arg.index.below).names]
    for size in (*known.sizes, *(float(rest) for rest, _ in known.rests)):
        for name in names:
            low, high = arg.index.bounds(arg.names_in(kind.case(dims)))
            if low <= size < high:
                break
            if size >= task.dims[name].max:
                continue
            more = task.dims[name].above(int(size) + ABOVE, kind.dtype)
            found = legal_near(task, kind, {**dims, name: max(more, dims[name])})
            if found and fits(found):
                dims = found
    case = kind.case(dims)
    low, high = arg.index.bounds(arg.names_in(case))
    sizes = [float(size) for size in known.sizes if low <= size < high]
    sizes += [
        float(first)
        for rest, divisor in known.rests
        for first in range(low + (rest - low) % divisor, high, divisor)[:REPEATS_OF_REST]
    ]
    for start in range(0, min(len(sizes), MOST_INDICES), MOST_PLANTED):
        numbers = dict.fromkeys(sizes[start : start + MOST_PLANTED])
        yield _drawn(case, {arg.name: tuple(numbers)}, rng)
