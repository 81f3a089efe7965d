"""Hidden cases: drawn from the whole legal domain, so that a candidate cannot know them.

Most are drawn once for all candidates of a judge, who learns the baseline's results on them once:
boundary shapes first, then sizes at even distances, then more rows than a grid's second extent
holds, then what no dim or argument shows by itself. Some are drawn for each evaluation. In all of
them strides, addresses and scalars are drawn as a caller may choose them, and arguments that may
hold any numbers get a value family each.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from astra_chat.tools.case import ONE_PLACE, USUAL_SEED_BITS, Packed
from astra_chat.tools.check.covering_cases import covering_cases
from astra_chat.tools.check.covering_options import alignment_of
from astra_chat.tools.check.drawn_dims import (
    ROUND,
    Dims,
    at_boundaries,
    at_ends,
    at_even_distances,
    least,
    legal_near,
    most_units,
    near_least,
    odd,
    of_long_tables,
    of_many_entries,
    of_many_rows,
    within_bytes,
)
from astra_chat.tools.check.drawn_layouts import (
    aligned,
    aligned_but,
    all_but_one_aligned,
    drawn_offsets,
    drawn_pads,
    one_or_all,
)
from astra_chat.tools.check.drawn_together import beside_served, large_together, near_served
from astra_chat.tools.check.drawn_values import (
    EXTREMES,
    Families,
    drawn_seed,
    mixed_in_one,
    of_each,
    small_together,
    special,
    with_large_values,
)
from astra_chat.tools.check.error_norms import FEW
from astra_chat.tools.entropy import Seed
from astra_chat.tools.task.contract import Scalar
from astra_chat.tools.task.domain import Combination
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.placement import packed_pads, then_of
from astra_chat.tools.task.relations import broken
from astra_chat.tools.types import ITEM_BYTES, Case, DeviceKind, DTypeName, ValueFamily, is_float

BUDGET_BYTES: dict[DeviceKind, int] = {"virtual": 2**17, "cuda": 2**21}
"""Budget of one drawn case, in bytes: the virtual GPU stays quick."""
SHARED_BYTES = 2**16
"""Budget of each of the many cases that all candidates of a judge share, in bytes."""
MANY_ROWS, MANY_ROWS_BYTES = 2**17, 2**24
"""Most rows and most bytes of a case of many rows."""
LONG_BYTES = 9 * 2**21
"""Most bytes of a call with long tables: 32,768 tokens of one head of 128, as served."""
CONFIRMED_ROWS, CONFIRMED_BYTES = 2**19, 2**25
"""Most rows and most bytes of a case of many rows when a winner is confirmed."""
When = Literal["each", "shared", "confirming"]
"""A draw: of one evaluation, of all evaluations of a judge, of a confirmation."""


class Quota(NamedTuple):
    """How many cases of one kind each draw has."""

    each: int
    shared: int
    confirming: int

    def of(self, when: When) -> int:
        match when:
            case "each":
                return self.each
            case "shared":
                return self.shared
            case "confirming":
                return self.confirming


TOGETHER = Quota(each=1, shared=3, confirming=12)
"""Cases of several large dims."""
LARGER = Quota(each=0, shared=0, confirming=4)
"""Larger ones of these, and as many larger ones near a timed call."""
NEAR_SERVED = Quota(each=0, shared=1, confirming=6)
"""Cases near a timed call."""
BESIDE = Quota(each=0, shared=0, confirming=16)
"""Calls that are timed but for one extent."""
SERVED = Quota(each=2, shared=2, confirming=12)
"""Cases of an extent of a timed call."""
USUAL = Quota(each=1, shared=2, confirming=6)
"""Cases of a power of two, or three times one, in one dim."""
SMALL = Quota(each=2, shared=16, confirming=36)
"""Cases of small numbers in several arguments."""
LAYOUTS = Quota(each=2, shared=8, confirming=12)
"""Cases of one argument that alone is not aligned."""
SWEPT_CASES = 1000
SWEPT_BYTES, LARGE_SWEPT_BYTES, LARGE_ONE_IN = 2**14, 2**21, 10
"""Budgets of a swept case and of a larger one, in bytes; one case in so many is a larger one."""
MOST_CASES, MOST_CONFIRMING = 40, 28
"""About so many cases of sizes at even distances in all checks, and further ones in a confirmation:
there are more dims and dtypes than that sizes could be an octave apart."""
ROWS_OCTAVES = 2.0
"""Distance of sizes in cases of many rows, which take a tenth of a second and more."""
CHANCE: tuple[ValueFamily, ...] = ("large", "tiny", "denormal", "ramp", "one_hot", "special")
OF_LARGE: tuple[Literal["normal", "special", "mixed_rows"], ...] = (
    "normal",
    "special",
    "mixed_rows",
    "mixed_rows",
)
"""Value families of cases that are drawn for their extents: kernels have paths of their own there,
which meet special and small numbers nowhere else."""
OF_COVERING: tuple[Literal["normal", "mixed_rows"] | None, ...] = (
    "normal",
    "normal",
    "mixed_rows",
    None,
)
"""Value families of covering cases: mostly numbers that tell a wrong result from a right one
everywhere. None: each argument has its own."""
UNALIGNED_ONE_IN = 3
"""Large cases that keep the layout they are drawn with; in all others the arguments are aligned."""
Weighted = tuple[tuple[Case, float], ...]
"""Cases to time, each with its weight."""


def draw(task: Task, device: DeviceKind, rng: random.Random) -> tuple[Case, ...]:
    """Hidden cases of one evaluation; all lie in the contract's domain."""
    budget, cases = BUDGET_BYTES[device], []
    for kind in task.combinations:
        cases.append(_case(task, kind, near_least(task, kind, rng), rng, rng.choice(CHANCE)))
        for family in ("normal", "heavy_tail", "binary", rng.choice(CHANCE), None, None):
            cases.append(_case(task, kind, odd(task, kind, rng, budget), rng, family))
    cases += _on_purpose(task, rng, "each")
    return (*lying(task, cases, rng), *_one_not_aligned(task, rng, "each"))


def draw_shared(
    task: Task, rng: random.Random, own: Sequence[Case] = (), *, confirming: bool = False
) -> tuple[Case, ...]:
    """Hidden cases of all evaluations of a judge, or those that confirm a winner: larger ones.
    Those of the task's `own` that are special are among them with the largest numbers, too."""
    cases = [
        _case(task, kind, dims, rng, rng.choice(("normal", None)))
        for kind, dims in _sizes(task, rng, confirming)
    ]
    most = (CONFIRMED_ROWS, CONFIRMED_BYTES) if confirming else (MANY_ROWS, MANY_ROWS_BYTES)
    octaves = ROWS_OCTAVES / 2 if confirming else ROWS_OCTAVES
    for kind, dims in of_many_rows(task, rng, octaves, *most, every_dtype=confirming):
        cases.append(_large(task, kind, dims, rng))
    cases += () if confirming else _entries_of_one_place(task, rng)
    cases += _long_tables(task, rng, confirming)
    when: When = "confirming" if confirming else "shared"
    cases += _on_purpose(task, rng, when)
    placed = list(lying(task, cases, rng))
    others = (*_one_not_aligned(task, rng, when), *_with_extremes(own, rng))
    return (*with_large_values(task, placed, rng), *others)


def _on_purpose(task: Task, rng: random.Random, when: When) -> Iterator[Case]:
    """What no size drawn by itself meets: two large dims, one extent of a timed call beside all
    else, small numbers in several."""
    for kind, dims in chain(
        large_together(task, rng, TOGETHER.of(when)),
        large_together(task, rng, LARGER.of(when), larger=True),
        near_served(task, rng, NEAR_SERVED.of(when)),
        near_served(task, rng, LARGER.of(when), larger=True),
        beside_served(task, rng, BESIDE.of(when)),
    ):
        yield _large(task, kind, dims, rng)
    for kind, dims in chain(
        at_served(task, rng, SERVED.of(when), SHARED_BYTES),
        at_usual(task, rng, USUAL.of(when), SHARED_BYTES),
    ):
        yield _case(task, kind, dims, rng, rng.choice(OF_LARGE))
    one = rng.choice(task.combinations)
    kinds = {"each": (), "shared": (one,), "confirming": task.combinations}
    for kind in kinds[when]:
        for dims in beside_round(task, kind, rng, SHARED_BYTES):
            yield _case(task, kind, dims, rng, "normal")
    args = [arg for arg in task.args if arg.has_families]
    small = [
        (kind, families) for kind in task.combinations for families in small_together(args, rng)
    ]
    for kind, families in rng.sample(small, min(SMALL.of(when), len(small))):
        case = _case(task, kind, odd(task, kind, rng, SHARED_BYTES), rng, "normal")
        there = {name: of for name, of in families.items() if name not in case.absent}
        yield case.model_copy(update={"families": there})


def _entries_of_one_place(task: Task, rng: random.Random) -> Iterator[Case]:
    """Yields for each index whose entries may be equal a call of many that are: a count of them
    overflows 16 bits, if the contract allows so many."""
    for arg in task.args:
        if arg.index is not None and arg.index.kind in ("any", "sorted"):
            kind = rng.choice(task.combinations)
            if dims := of_many_entries(task, kind, arg, MANY_ROWS_BYTES):
                case = _case(task, kind, dims, rng, "normal", arg.name)
                yield case.model_copy(update={"seed": case.seed | ONE_PLACE})


def _long_tables(task: Task, rng: random.Random, confirming: bool) -> Iterator[Case]:
    """Yields calls of which index arguments make loops long, with one combination of dtypes or, in
    a confirmation, with all."""
    if any(arg.index is not None for arg in task.args):
        for kind in task.combinations if confirming else rng.sample(task.combinations, 1):
            for dims in of_long_tables(task, kind, LONG_BYTES):
                yield aligned(task, _case(task, kind, dims, rng, "normal"), rng)


def _one_not_aligned(task: Task, rng: random.Random, when: When) -> Iterator[Case]:
    """One argument among aligned ones that is not;"""
    places = [(p, kind) for kind in task.combinations for p in all_but_one_aligned(task)]
    for (name, padded), kind in rng.sample(places, min(LAYOUTS.of(when), len(places))):
        case = _case(task, kind, all_round(task, kind, rng, SHARED_BYTES), rng, "normal", name)
        yield aligned_but(task, case, name, padded, rng)


def _large(task: Task, kind: Combination, dims: Dims, rng: random.Random) -> Case:
    case = _case(task, kind, dims, rng, rng.choice(OF_LARGE))
    return case if rng.randrange(UNALIGNED_ONE_IN) == 0 else aligned(task, case, rng)


def _with_extremes(cases: Sequence[Case], rng: random.Random) -> Iterator[Case]:
    """Yields the cases of special values on further numbers, with the largest number of either
    sign: where a product overflows and the result does not, infinities tell nothing."""
    for case in cases:
        for kind in EXTREMES if case.values == "special" else ():
            yield case.model_copy(update={"seed": drawn_seed(rng) & ~3 | kind})


def draw_covering(
    task: Task, rng: random.Random, *, confirming: bool = False
) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Cases with all pairs of dtypes, extents, scalars, absent arguments and alignments, or to
    confirm a winner all triples; and which of them are left out, as text."""
    found, left_out = covering_cases(task, 3 if confirming else 2, rng)
    cases = [
        one.finish(_case(task, one.kind, one.dims, rng, rng.choice(OF_COVERING), absent=one.absent))
        for one in found
    ]
    return tuple(lying(task, cases, rng, keep_alignment=True)), left_out


def draw_confirming(task: Task, seed: Seed) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """The further cases of an evaluation that confirms a winner, by its seed; and which triples are
    left out, as text."""
    cases = draw_shared(task, seed.of("confirming cases").random(), confirming=True)
    triples, left_out = draw_covering(task, seed.of("covering triples").random(), confirming=True)
    ends, no_ends = draw_ends(task, seed.of("cases at ends").random())
    return (*cases, *triples, *ends), (*left_out, *no_ends)


def draw_ends(task: Task, rng: random.Random) -> tuple[tuple[Case, ...], tuple[str, ...]]:
    """Cases with as many rows as the contract allows; and dims without one, as text."""
    ends, left_out = at_ends(task, rng)
    cases = (_case(task, kind, dims, rng, "normal") for kind, dims in ends)
    return tuple(aligned(task, case, rng) for case in cases), left_out


def drawn_for_kernels(task: Task, kind: Combination, dims: Dims, rng: random.Random) -> Case:
    """A case of these extents whose layout and scalars may select a kernel: most are aligned."""
    return _large(task, kind, dims, rng)


def draw_swept(task: Task, rng: random.Random, count: int = SWEPT_CASES) -> tuple[Case, ...]:
    """Cases on which candidate and baseline are compared on a GPU: triples as of a confirmation,
    half of the cases at most, and others, of which nine in ten are small, so that they are many."""
    triples = draw_covering(task, rng, confirming=True)[0][: count // 2]
    cases = []
    for place in range(len(triples), count):
        kind = task.combinations[place % len(task.combinations)]
        budget = SWEPT_BYTES if rng.randrange(LARGE_ONE_IN) else LARGE_SWEPT_BYTES
        family = rng.choice(("normal", "heavy_tail", rng.choice(CHANCE), None, None))
        cases.append(_case(task, kind, odd(task, kind, rng, budget), rng, family))
    return tuple(unique([*triples, *lying(task, cases, rng)]))


def twin(case: Case, rng: random.Random) -> Case:
    """Returns the case with another seed: what is remembered from the first is wrong for it."""
    return case.model_copy(update={"seed": drawn_seed(rng)})


def seeded(case: Case, seed: int) -> Case:
    """A case of the task's list, whose seed is the judge's to draw unless the list states one."""
    return case if case.seed else case.model_copy(update={"seed": seed})


def heaviest(weighted: Weighted) -> int:
    """Index of the case of greatest weight, the first of equals."""
    weights = [weight for _, weight in weighted]
    return weights.index(max(weights))


def unique(cases: Sequence[Case]) -> list[Case]:
    """Each case once, in their order."""
    return list({case.key: case for case in cases}.values())


def reseeded(weighted: Weighted, seed: Seed) -> Weighted:
    """Cases to time on numbers that no candidate has met."""
    bits = USUAL_SEED_BITS
    drawn = [1 + seed.of("timed case", place).bits(bits) for place in range(len(weighted))]
    return tuple(
        (case.model_copy(update={"seed": one}), weight)
        for (case, weight), one in zip(weighted, drawn, strict=True)
    )


def _sizes(task: Task, rng: random.Random, confirming: bool) -> Iterator[tuple[Combination, Dims]]:
    """Boundaries, which every check has: of each dim with one combination of dtypes, as covering
    cases have all pairs of them. Then sizes at even distances with all of them."""
    kinds = rng.sample(task.combinations, len(task.combinations))
    for place, name in enumerate(() if confirming else task.dims):
        kind = kinds[place % len(kinds)]
        yield from ((kind, dims) for dims in at_boundaries(task, kind, name, rng, SHARED_BYTES))
    most = MOST_CONFIRMING if confirming else MOST_CASES
    for kind in task.combinations:
        octave = len(list(at_even_distances(task, kind, rng, SHARED_BYTES, 1.0)))
        octaves = max(1.0, octave * len(task.combinations) / most)
        for dims in at_even_distances(task, kind, rng, SHARED_BYTES, octaves):
            yield kind, dims


def _case(
    task: Task,
    kind: Combination,
    dims: Dims,
    rng: random.Random,
    family: ValueFamily | Literal["mixed_rows"] | None,
    present: str = "",
    absent: tuple[str, ...] | None = None,
) -> Case:
    """Without a family each argument that may hold any numbers gets one of its own. So it is too
    where there are few results, which say little of precision, and of special values, whose
    greatest numbers are the argument's then. `present`: an argument that is not left out;
    `absent`: all that are, in the place of drawn ones."""
    if absent is None:
        optional = (arg.name for arg in task.args if arg.optional and rng.randrange(2))
        absent = tuple(name for name in optional if name != present)
    own = [arg for arg in task.args if arg.has_families and arg.name not in absent]
    families: Families = {}
    if family == "mixed_rows":
        families, family = mixed_in_one(own, rng), "normal"
    elif family == "special" and any(arg.has_special for arg in own):
        families, family = special(own, rng), None
    case = kind.case(dims).model_copy(
        update={"values": family or "normal", "seed": drawn_seed(rng), "absent": absent}
    )
    results = task.least_results(case)
    if not families and (not family or results < FEW):
        families = of_each(own, rng)
    if not family and not families:
        case = case.model_copy(update={"values": rng.choice(CHANCE)})
    offset, offsets = drawn_offsets(task, rng)
    scalars = {s.name: _value(s, rng) for s in task.scalars if s.varies}
    if broken(task.require, task.names_in(case.model_copy(update={"scalars": scalars}))):
        scalars = {}
    return case.model_copy(
        update={
            "families": families,
            "pads": drawn_pads(task, case, rng),
            "offset": offset,
            "offsets": offsets,
            "scalars": scalars,
        }
    )


def _value(scalar: Scalar, rng: random.Random) -> float:
    """The usual value, another that the contract names, an end of its range or one within it."""
    named = scalar.named
    if scalar.range is None:
        return rng.choice(named)
    low, high = scalar.range
    if low > 0:
        within = math.exp(rng.uniform(math.log(low), math.log(high)))
    else:
        within = rng.uniform(low, high)
    whole = scalar.type == "int64_t"
    within = min(high, max(low, float(round(within)) if whole else within))
    return rng.choice((rng.choice(named), rng.choice((low, high)), within, within))


# Cases in which exact results lie in the middle of two values of their dtype.
#
# Products of large 16-bit numbers do where an activation has reached its end, as SiLU and GELU
# have: one in 200 of bfloat16, one in 1,000 of float16. Cases that are drawn for other ends are too
# small to have enough of them (column_bias.py).

LEAST_BYTES = 2**19
"""Budget of such a case, in bytes."""
SIZES_APART = 2.0
"""Octaves between the sizes of which the one with the most results is taken."""
CASES = {"float16": 3, "bfloat16": 2}
"""Cases of a dtype, as one has too few ties."""


def tied(task: Task, rng: random.Random) -> Iterator[Case]:
    """Cases of large numbers for each 16-bit dtype that a result has."""
    met = set[DTypeName]()
    for kind in task.combinations:
        sizes = at_even_distances(task, kind, rng, LEAST_BYTES, SIZES_APART)
        cases = [kind.case(dims).model_copy(update={"values": "large"}) for dims in sizes]
        if not cases:
            continue
        most = max(cases, key=task.least_results)
        written = (arg.dtype_of(most) for arg in task.args if arg.written)
        narrow = {dtype for dtype in written if is_float(dtype) and ITEM_BYTES[dtype] == 2}
        for dtype in sorted(narrow - met):
            met.add(dtype)
            for _ in range(CASES.get(dtype, 1)):
                yield most.model_copy(update={"seed": drawn_seed(rng)})


# How arguments of drawn cases lie to each other: half of the cases of a contract that names packed
# arguments have them in one buffer; of every task some have all arguments in neighbouring
# allocations, as a caching allocator gives them.
#
# A kernel can compare pointers as well as numbers, and takes the path that it finds.

APART_ONE_IN = 6
"""Cases with the strides of a packed buffer whose arguments lie apart all the same."""
TRIES = 4
"""Draws of a placement that keeps a case's alignment."""
MOST_THEN = 64
"""Elements that are drawn for what follows the last argument of a row."""


def lying(
    task: Task, cases: Sequence[Case], rng: random.Random, *, keep_alignment: bool = False
) -> Iterator[Case]:
    """The cases in their order, each with a drawn placement; of those of a covering array only one
    with which as many arguments are aligned as before."""
    for case in cases:
        kinds = _kinds(task, case, rng)
        tries = (kind for kind in kinds for _ in range(TRIES if keep_alignment else 1))
        drawn = (placed(task, case, kind, rng) for kind in tries)
        level = alignment_of(task, case) if keep_alignment else None
        kept = (one for one in drawn if one and level in (None, alignment_of(task, one)))
        yield next(kept, case)


def _kinds(task: Task, case: Case, rng: random.Random) -> tuple[Packed, ...]:
    """What to try, the first that is possible."""
    drawn = rng.randrange(8)
    if task.packed and drawn < 4:
        return ("rows", "tensors") if drawn < 2 else ("tensors", "rows")
    if task.same and drawn < 6:
        return ("same",)
    return ("neighbours",) if drawn < 6 and len(task.args) > 1 else ()


def placed(task: Task, case: Case, kind: Packed, rng: random.Random) -> Case | None:
    """The case with its arguments placed so, and with strides that go with that; None where they
    cannot lie so in it, or would take too much memory."""
    named = [n for groups in (task.packed, task.same) for group in groups for n in group.args]
    pads = case.pads
    if kind in ("tensors", "rows", "same") and (kind == "same" or rng.randrange(3)):
        bare = (arg for arg in task.args if arg.strided and arg.name in named)
        pads = {**pads, **{arg.name: one_or_all((0,) * len(arg.free_axes)) for arg in bare}}
    one = case.model_copy(update={"pads": pads, "packed": kind})
    if kind == "neighbours" and rng.randrange(2):
        one = one.model_copy(update={"offset": 0, "offsets": {}})
    if kind == "rows":
        usual = [then_of(task, group, case) for group in task.packed]
        then = [rng.choice((own, own, own, 0, rng.randrange(MOST_THEN))) for own in usual]
        one = packed_pads(task, one, then)
        if task.allows(one) and task.is_small(one) and not rng.randrange(APART_ONE_IN):
            one = one.model_copy(update={"packed": "apart"})
    return one if task.allows(one) and task.is_small(one) else None


# Extents of drawn cases that kernels are written for: those of served calls, and round ones.
#
# A kernel may have a path of its own for one extent, or for a round one and its neighbours. Each is
# drawn in one dim at a time, the others small, so that it meets all else that a caller may choose.

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
