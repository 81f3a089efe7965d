"""Hidden cases of the numbers that a candidate knows by heart: they become extents, strides and
scalars, and values and indices that are planted among drawn ones.

Each case tries a number in every dim, stride and scalar where it is legal and affordable, so that
a few dozen cases try all. Where a candidate knows few numbers, they are tried again among other
extents and dtypes: a number may do harm in one of several kernels only.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from astra_chat.tools.case import SEED_BITS
from astra_chat.tools.check.drawn_dims import (
    Dims,
    estimated_us,
    least,
    legal_near,
    odd,
    within_bytes,
)
from astra_chat.tools.check.drawn_layouts import one_or_all
from astra_chat.tools.check.drawn_together import most_varied
from astra_chat.tools.check.floats import as_float
from astra_chat.tools.entropy import Seed
from astra_chat.tools.known import KnownNumbers
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.contract import Arg, Scalar
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.expressions import parse
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.relations import broken
from astra_chat.tools.types import ITEM_BYTES, Case, DTypeName, ValueFamily, is_float

MOST_CASES = (20, 48)
"""Cases that try sizes: of an evaluation, and to confirm a winner."""
TOGETHER_US, FEW_US, SHORT_US, LONG_US = 3_000.0, 25_000.0, 60_000.0, 12_000_000.0
"""What a case takes the virtual GPU at most by the estimate of drawn_dims.py: one that tries
several numbers; of a single number one with a few of all else, one with little of all else, and
one that is as long as the least of all else makes it."""
MOST_LONG, LONG_TOTAL_US = (4, 2), 3_000_000.0
"""Cases beyond the short ones that an evaluation has, and how many where those before took so
long."""
ROUNDS, ROUND_BYTES = 4, 2**14
"""Times that a number is tried, as far as MOST_CASES reach; and least bytes of a call of the later
times, whose other dims are drawn."""
MOST_SERVED, TRIES_OF_SERVED = (6, 12), 4
"""Cases that try a number of the dim that varies most beside the other extents of a check case: a
number may do harm in a kernel that is launched for such extents only."""
MOST_STRIDED_BYTES = 2**22
"""Largest buffer of an argument in which a stride is tried, in bytes."""
FEW_ROWS, FEW_STEPS = 3, 4
"""Dims of which no number is tried are up to so many steps above their least, tokens some more."""
REPEATS_OF_REST, MOST_OF_REST = 3, 4096
"""Sizes with the same rest that are tried, and how many are looked at for legal ones."""


def cases_by_heart(
    task: Task, known: KnownNumbers, seed: Seed, confirming: bool = False
) -> tuple[Case, ...]:
    """Cases for these numbers in the evaluation with this seed; all lie in the contract's domain.
    To confirm a winner there are more."""
    if not known:
        return ()
    rng = seed.of("cases by heart").random()
    sized = list(_sized(task, known, rng, MOST_CASES[confirming]))
    totals = [
        kind.case(dims).model_copy(update={"seed": 1 + rng.getrandbits(SEED_BITS)})
        for kind, dims in at_totals(task, known.sizes, rng)
    ]
    served = _beside_served(task, known, rng, MOST_SERVED[confirming])
    found = (*sized, *served, *totals, *planted_cases(task, known, rng))
    return tuple(case for case in found if task.is_small(case))


def _sized(task: Task, known: KnownNumbers, rng: random.Random, most: int) -> Iterator[Case]:
    long, long_us, wishes = 0, 0.0, _Wishes(task, known, rng)
    for number in range(most):
        start = (number + wishes.round) % len(task.combinations)
        kinds = [*task.combinations[start:], *task.combinations[:start]]
        kind, dims = wishes.next_dims(kinds, long=long < MOST_LONG[long_us > LONG_TOTAL_US])
        us = estimated_us(task, kind, dims)
        if us > SHORT_US:
            long, long_us = long + 1, long_us + us
        case = wishes.with_scalars(wishes.with_strides(kind.case(dims)))
        if wishes.tried_some:
            yield case.model_copy(update={"seed": 1 + rng.getrandbits(SEED_BITS)})
        elif wishes.round + 1 == ROUNDS:
            return
        else:
            wishes = _Wishes(task, known, rng, wishes.round + 1)


def _beside_served(
    task: Task, known: KnownNumbers, rng: random.Random, most: int
) -> Iterator[Case]:
    """The first numbers as extents of the dim that varies most, each in one of the task's own check
    cases."""
    name = most_varied(task)
    extents = _extents(task, name, known)
    for extent in extents[:most]:
        for case in rng.sample(task.check, min(len(task.check), TRIES_OF_SERVED)):
            kind = Combination.of(case)
            wanted = {**case.dims, name: extent}
            if not task.dims[name].allows(extent, kind.dtype):
                continue
            fits = estimated_us(task, kind, wanted) <= SHORT_US and task.is_small(kind.case(wanted))
            if fits and legal_near(task, kind, wanted, list(wanted)) == wanted:
                seed = 1 + rng.getrandbits(SEED_BITS)
                yield kind.case(wanted).model_copy(update={"seed": seed})
                break


def _few(task: Task, kind: Combination, rng: random.Random) -> Dims:
    """A few steps of each dim, a few tokens: in least dims much is wrong that does not show, as a
    rotation by position 0 is none."""
    tokens = most_varied(task)
    steps = {name: rng.randint(1, FEW_STEPS) + FEW_ROWS * (name == tokens) for name in task.dims}
    return _above_least(task, kind, steps)


def _above_least(task: Task, kind: Combination, steps: Mapping[str, int]) -> Dims:
    """Each dim so many steps above its least."""
    dims = {
        name: dim.nearest(dim.min + dim.step(kind.dtype) * steps[name], kind.dtype)
        for name, dim in task.dims.items()
    }
    return legal_near(task, kind, dims) or least(task, kind)


class _Wishes:
    """What one round has still to try, of each dim, stride and scalar; later rounds try the same
    numbers beside other extents."""

    def __init__(self, task: Task, known: KnownNumbers, rng: random.Random, round: int = 0) -> None:
        self._task, self._rng, self.round = task, rng, round
        sizes = list(known.sizes)
        self._extents = {name: _extents(task, name, known) for name in task.dims}
        strided = [arg for arg in task.args if arg.strided]
        places = range(max((len(arg.free_axes) for arg in strided), default=0))
        strides = dict.fromkeys(sizes + _in_bytes(sizes, strided))
        self._strides = [(stride, place) for stride in strides for place in places]
        varied = [scalar for scalar in task.scalars if scalar.varies]
        self._scalars = {
            one.name: [v for v in _scalars(known) if _may_be(one, v)] for one in varied
        }
        self._again = {
            one.name: [v for v in known.values if _may_be(one, v)] or self._scalars[one.name][:]
            for one in varied
        }
        self.tried_some, self._turn, self._turn_of_scalars = False, 0, 0

    def next_dims(self, kinds: Sequence[Combination], *, long: bool) -> tuple[Combination, Dims]:
        """The first of these dtypes with which there is an extent left to try, and dims that try
        as many as a short call has room for, or one by itself; else few rows, or drawn dims."""
        for kind in kinds:
            found = self._dims(kind, long=long)
            if found is not None:
                self.tried_some = True
                return kind, found
        self.tried_some = False
        return kinds[0], self._others(kinds[0])

    def _dims(self, kind: Combination, *, long: bool) -> Dims | None:
        fixed: Dims = {}
        dims = self._others(kind)
        names = [name for name in self._extents if self._extents[name]]
        names = self._rng.sample(names, len(names))
        self._turn += 1
        if self._turn % 2:  # only a number that comes first may be large
            names.sort(key=lambda name: name != most_varied(self._task))
        for name in names:
            found = self._next(kind, dims, fixed, name, long=long)
            if found is not None:
                dims, fixed = found, {**fixed, name: found[name]}
        return dims if fixed else None

    def _others(self, kind: Combination) -> Dims:
        """Extents beside those that are tried."""
        if self.round:
            return odd(self._task, kind, self._rng, ROUND_BYTES)
        return _few(self._task, kind, self._rng)

    def _next(
        self, kind: Combination, dims: Dims, fixed: Dims, name: str, *, long: bool
    ) -> Dims | None:
        """The dims with the first extent of this one that fits, the others at their least where
        they must be; it is tried now."""
        most_us = TOGETHER_US if fixed else LONG_US if long else SHORT_US
        one_more = _above_least(self._task, kind, dict.fromkeys(dims, 1))
        for extent in self._extents[name]:
            if not self._task.dims[name].allows(extent, kind.dtype):
                continue
            kept = {**fixed, name: extent}
            tried = (dims, FEW_US), (one_more, SHORT_US), (least(self._task, kind), most_us)
            for others, others_us in tried:
                found = legal_near(self._task, kind, {**others, **kept}, kept)
                if found is None or any(found[n] != v for n, v in kept.items()):
                    continue
                if not self._task.is_small(kind.case(found)):
                    continue
                if estimated_us(self._task, kind, found) <= min(most_us, others_us):
                    self._extents[name].remove(extent)
                    return found
        return None

    def with_strides(self, case: Case) -> Case:
        """The case with the next stride that its rows leave room for, in every argument that has
        so many free strides, at the same place among them."""
        for stride, place in self._strides:
            pads = {}
            for arg in self._task.args:
                if place < len(arg.free_axes) and (found := _padded(arg, case, stride, place)):
                    pads[arg.name] = found
            if pads:
                self._strides.remove((stride, place))
                self.tried_some = True
                return case.model_copy(update={"pads": pads})
        return case

    def with_scalars(self, case: Case) -> Case:
        """The case with the next value of each scalar. They cost nothing: every second case, and
        those that come when all are tried, have one of a float's literals again."""
        self._turn_of_scalars += 1
        values, new = dict[str, float](), list[str]()
        for name, left in self._scalars.items():
            again = self._again[name]
            if left and (self._turn_of_scalars % 2 or not again):
                values[name] = left[0]
                new.append(name)
            elif again:
                values[name] = again[self._turn_of_scalars // 2 % len(again)]
        changed = case.model_copy(update={"scalars": values})
        if not values or broken(self._task.require, self._task.names_in(changed)):
            return case
        for name in new:
            del self._scalars[name][0]
        if not self._task.allows(changed):
            return case
        self.tried_some = self.tried_some or bool(new)
        return changed


def _extents(task: Task, name: str, known: KnownNumbers) -> list[int]:
    """Legal extents of a dim that are to be tried, in their order; those of the task's own cases
    are left out. Where only multiples are legal, the number may count those."""
    dim = task.dims[name]
    steps = sorted({dim.step(kind.dtype) for kind in task.combinations})
    wanted = list(known.sizes)
    for rest, divisor in known.rests:
        legal = islice(range(rest or divisor, dim.max + 1, divisor), MOST_OF_REST)
        some = (s for s in legal if any(dim.allows(s, k.dtype) for k in task.combinations))
        wanted[:0] = [size for size, _ in zip(some, range(REPEATS_OF_REST), strict=False)]
    multiples = [size * step for size in known.sizes for step in steps if step > 1]
    met = {case.dims[name] for case in task.check}
    found = dict.fromkeys((*wanted, *multiples))
    legal_for = task.combinations
    return [
        size
        for size in found
        if size not in met and any(dim.allows(size, kind.dtype) for kind in legal_for)
    ]


def _in_bytes(sizes: Sequence[int], strided: Sequence[Arg]) -> list[int]:
    """Elements of strides that are so many bytes."""
    widths = sorted({ITEM_BYTES[arg.dtype_of(Case(dims={}, dtype="float16"))] for arg in strided})
    return [size // width for size in sizes for width in widths if width > 1 and not size % width]


def _may_be(scalar: Scalar, value: float) -> bool:
    """Whether callers may give the value, beside those that the contract names: where it states no
    range, one between those."""
    low, high = scalar.range or (min(scalar.named), max(scalar.named))
    return low <= value <= high and scalar.allows(value) and value not in scalar.named


def _scalars(known: KnownNumbers) -> list[float]:
    return list(dict.fromkeys((*known.values, *map(float, known.sizes))))


def _padded(arg: Arg, case: Case, stride: int, place: int) -> int | tuple[int, ...] | None:
    """The paddings by which the free stride of this place is so long; None where it cannot be."""
    if not arg.present(case):
        return None
    axes = arg.free_axes
    dense = arg.strides_of(case.model_copy(update={"pads": {arg.name: 0}, "pad": 0}))
    pad = stride - dense[axes[place]]
    if pad < 0:
        return None
    pads = one_or_all(tuple(pad if at == place else 0 for at in range(len(axes))))
    padded = case.model_copy(update={"pads": {arg.name: pads}, "pad": 0})
    exact = arg.strides_of(padded)[axes[place]] == stride
    return pads if exact and buffer_bytes(arg, padded) <= MOST_STRIDED_BYTES else None


# Cases whose arguments hold the numbers that a candidate knows by heart, among drawn ones.

MOST_PLANTED = 24
"""Numbers of one argument in a case."""
ROWS = 240
"""Rows of the arguments, where that is legal: each number has rows of its own."""
ABOVE = 2
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


# Extents whose product is a given number: what is compared with may count all elements of an
# argument.

LEAST_TOTAL, MOST_TOTAL = 10_000, 2**24
"""Numbers of elements that are tried: fewer are in all drawn cases, and more take too long."""
MOST_BYTES = 2**26
MOST_TOTALS = 6
PRODUCTS = (128, 2048)
"""About how many elements a token has."""


def at_totals(
    task: Task, sizes: Sequence[int], rng: random.Random
) -> Iterator[tuple[Combination, Dims]]:
    """Dims with which an argument has so many elements, or the next possible number; for each of
    these sizes in their order, arguments with other shapes by turns, at most MOST_TOTALS."""
    args = list({arg.shape: arg for arg in task.args}.values())
    some = [size for size in sizes if LEAST_TOTAL <= size <= MOST_TOTAL]
    found = 0
    for place, size in enumerate(some):
        kind = task.combinations[place % len(task.combinations)]
        for arg in args:
            dims = _with_elements(task, kind, arg, size, rng)
            if dims is not None and found < MOST_TOTALS:
                found += 1
                yield kind, dims


def _with_elements(
    task: Task, kind: Combination, arg: Arg, size: int, rng: random.Random
) -> Dims | None:
    """Rows that divide the number where there are such; None where the argument has no place for
    so many, or they take too many bytes."""
    tokens, fits = most_varied(task), within_bytes(task, kind, MOST_BYTES)
    low = least(task, kind)
    others = [name for name in task.dims if name != tokens and _counts(task, kind, arg, name)]
    wide = max(others, key=lambda name: task.dims[name].max / max(1, low[name]), default=None)
    if not _counts(task, kind, arg, tokens):
        return None
    extents = _total_extents(task, kind, wide, rng) if wide else [0]
    tried = [{**low, **({wide: extent} if wide else {})} for extent in extents]
    rows = [_elements(arg, kind, {**dims, tokens: 1}) for dims in tried]
    for exactly in (True, False):
        for dims, row in zip(tried, rows, strict=True):
            wanted = {**dims, tokens: -(-size // row) if row else 0}
            if (row > 0 and size % row == 0) is not exactly or wanted[tokens] < 1:
                continue
            if not task.dims[tokens].allows(wanted[tokens], kind.dtype):
                continue
            if legal_near(task, kind, wanted, list(wanted)) == wanted and fits(wanted):
                return wanted
    return None


def _counts(task: Task, kind: Combination, arg: Arg, name: str) -> bool:
    """Whether an argument has more elements where this dim is larger."""
    low = least(task, kind)
    more = {**low, name: 2 * max(1, low[name])}
    return _elements(arg, kind, more) > _elements(arg, kind, low)


def _total_extents(task: Task, kind: Combination, name: str, rng: random.Random) -> Sequence[int]:
    """Legal extents of a dim in the order in which they are tried."""
    dim = task.dims[name]
    step = dim.step(kind.dtype)
    low = max(dim.nearest(dim.min, kind.dtype), dim.nearest(PRODUCTS[0], kind.dtype))
    legal = [
        e for e in range(low, min(dim.max, PRODUCTS[1]) + 1, step) if dim.allows(e, kind.dtype)
    ]
    return rng.sample(legal, len(legal))


def _elements(arg: Arg, kind: Combination, dims: Dims) -> int:
    return math.prod(arg.shape_of(kind.case(dims)))
