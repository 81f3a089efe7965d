"""What a contract says that cannot be: names that nothing has, and expressions that fail for dims
that the contract itself allows. Found when a task is loaded, all at once.

Dims are tried at their ends and between them, where the relations hold: what is refused is shown
with the dims at which it fails.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from astra_chat.tools.task.batch_invariance import invariance_problems
from astra_chat.tools.task.contract import INTEGERS, Arg, Dim, Judged
from astra_chat.tools.task.domain import Combination, Domain, Place
from astra_chat.tools.task.expressions import evaluate, parse, parse_relation
from astra_chat.tools.task.groups import group_problems
from astra_chat.tools.task.relations import broken, settled
from astra_chat.tools.types import DTYPES, ITEM_BYTES, Case, DTypeName, is_float

MOST_POINTS = 512
Problem = tuple[Place, str]


def problems(domain: Domain, cases: Sequence[Case] = ()) -> list[Problem]:
    """Where the contract contradicts itself, and how; each place once. `cases` are the task's."""
    found = list(_types(domain))
    found += [*_names(domain), *_arguments(domain)] if not found else []
    found += group_problems(domain.args, domain.packed, domain.same) if not found else []
    found += invariance_problems(domain.batch_invariant, domain.args, [*domain.dims])
    found += _somewhere(domain, cases) if not found else []
    found += _scales(domain, cases) if not found else []
    return list(dict(reversed(found)).items())[::-1]


def _types(domain: Domain) -> Iterator[Problem]:
    for at, types in enumerate(domain.types):
        if tuple(types) != domain.variables:
            wanted = ", ".join(domain.variables) or "no variable"
            yield (
                ("types", at),
                f"each combination must name the same variables in the same order: {wanted}",
            )
    for at, arg in enumerate(domain.args):
        if arg.dtype not in DTYPES and arg.dtype not in domain.variables:
            known = ", ".join((*domain.variables, *DTYPES))
            yield ("args", at, "dtype"), f"'{arg.dtype}' is not one of {known}"
        if arg.weight and arg.access != "read":
            yield ("args", at, "weight"), f'{arg.name} is a weight: its access must be "read"'


def _names(domain: Domain) -> Iterator[Problem]:
    """Names that two things have, and names in expressions that nothing has."""
    named: list[Problem] = [(("args", i, "name"), arg.name) for i, arg in enumerate(domain.args)]
    named += [(("dims", name), name) for name in domain.dims]
    named += [(("scalars", i, "name"), s.name) for i, s in enumerate(domain.scalars)]
    named += [
        (("args", i, "strides"), n) for i, arg in enumerate(domain.args) for n in arg.stride_names
    ]
    counts = Counter(name for _, name in named)
    yield from ((place, f"'{n}' is given twice") for place, n in named if counts[n] > 1)
    known = {*domain.dims, *domain.usual_scalars}
    for place, text in _expressions(domain):
        for unknown in sorted(parse(text).names - known):
            yield place, f"'{unknown}' in '{text}' is neither a dim nor an integer scalar"
    for at, relation in enumerate(domain.require):
        for unknown in sorted(parse_relation(relation).names - known):
            what = "is neither a dim nor an integer scalar"
            yield ("require", at), f"'{unknown}' in '{relation}' {what}"


def _expressions(domain: Domain) -> Iterator[tuple[Place, str]]:
    yield ("flops",), domain.flops
    if domain.stated_least_bytes is not None:
        yield ("least_bytes",), domain.stated_least_bytes
    for at, arg in enumerate(domain.args):
        yield from ((("args", at, "shape", axis), text) for axis, text in enumerate(arg.shape))
        for axis, text in enumerate(arg.strides or ()):
            if text != "free":
                yield ("args", at, "strides", axis), text
        if arg.index:
            yield ("args", at, "index", "from"), arg.index.start
            yield ("args", at, "index", "below"), arg.index.below
        if arg.judged:
            yield from ((("args", at, "judged"), text) for text in arg.judged.group)
    yield from ((("packed", at), group.then) for at, group in enumerate(domain.packed))


def _arguments(domain: Domain) -> Iterator[Problem]:
    if not any(arg.written for arg in domain.args):
        yield ("args",), "the kernel writes no argument, so there is nothing to check"
    names = {arg.name for arg in domain.args}
    for at, arg in enumerate(domain.args):
        dtypes = _dtypes(domain, arg)
        for field, what in (*_of_argument(arg, dtypes, names), *_of_judged(arg, dtypes, names)):
            yield ("args", at, field), what


def _dtypes(domain: Domain, arg: Arg) -> list[DTypeName]:
    """All that an argument's dtype may be."""
    some = (arg.dtype_of(combination.case({})) for combination in domain.combinations)
    return list(dict.fromkeys(some))


def _of_argument(arg: Arg, dtypes: list[DTypeName], names: set[str]) -> Iterator[tuple[str, str]]:
    if arg.strides is not None and len(arg.strides) != len(arg.shape):
        yield "strides", f"{len(arg.strides)} strides for {len(arg.shape)} axes of '{arg.name}'"
    if arg.stride_alignment_bytes > 1 and not arg.strided:
        yield "stride_alignment_bytes", f"'{arg.name}' has no free stride"
    bounded = "range" if arg.range else "largest" if arg.largest else ""
    if arg.access == "workspace" and (arg.strides or arg.index or bounded or arg.judged):
        yield (
            "access",
            "a workspace cannot have strides, index, numbers or judged, because it has no contents",
        )
    if bounded and not all(map(is_float, dtypes)):
        yield (
            bounded,
            f"'{arg.name}' may contain integers: declare an index, or draw its values in"
            " make_inputs",
        )
    if arg.range and arg.range[0] >= arg.range[1]:
        yield "range", "there are no numbers between {:g} and {:g}".format(*arg.range)
    if arg.range and (arg.largest or not arg.read):
        yield "range", "give range without largest, and only for an argument that is read"
    yield from _of_values(arg, dtypes)
    if arg.index and not (arg.read and all(dtype in INTEGERS for dtype in dtypes)):
        yield "index", f"index is only for integers that are read: '{arg.name}' is {dtypes[0]}"
    if arg.index and arg.index.table not in {None, *names}:
        yield "index", f"table: no argument is named '{arg.index.table}'"


def _of_values(arg: Arg, dtypes: list[DTypeName]) -> Iterator[tuple[str, str]]:
    for name in ("values", "smallest"):
        if getattr(arg, name) and not (arg.read and all(map(is_float, dtypes))):
            yield name, f"{name} is only for floats that are read: '{arg.name}' is {dtypes[0]}"
    if arg.range and arg.values in ("any", "no_nan"):
        yield "values", "with a range, values must be minus_inf or finite"


def _of_judged(arg: Arg, dtypes: list[DTypeName], names: set[str]) -> Iterator[tuple[str, str]]:
    judged = arg.judged
    if judged is None:
        return
    if not arg.written:
        yield "judged", f"'{arg.name}' is not written"
    for other in (judged.scale, judged.probabilities):
        if other not in {None, *names}:
            yield "judged", f"no argument is named '{other}'"
    if judged.by == "close" and not all(map(is_float, dtypes)):
        yield "judged", f"close is only for floats: '{arg.name}' is {dtypes[0]}"
    if judged.by == "quantized":
        yield from _of_codes(arg, judged, dtypes)
    if judged.by == "distribution":
        if not judged.probabilities:
            yield "judged", "draws need probabilities: give the argument that contains them"
        if not all(dtype in INTEGERS for dtype in dtypes):
            yield "judged", f"draws must be integers, but '{arg.name}' is {dtypes[0]}"


def _of_codes(arg: Arg, judged: Judged, dtypes: list[DTypeName]) -> Iterator[tuple[str, str]]:
    if not judged.scale:
        yield "judged", "quantized codes need a scale: name its argument"
    if len(judged.group) != len(arg.shape):
        what = f"group has {len(judged.group)} extents, but '{arg.name}' has {len(arg.shape)} axes"
        yield "judged", what
    if any(ITEM_BYTES[dtype] > 1 or dtype == "bool" for dtype in dtypes):
        yield "judged", f"codes must have 8 bits, but '{arg.name}' is {dtypes[0]}"


def _scales(domain: Domain, cases: Sequence[Case]) -> Iterator[Problem]:
    """Codes whose groups are not as many as their scales, on a case of the lists."""
    by_name = {arg.name: arg for arg in domain.args}
    for at, arg in enumerate(domain.args):
        if not arg.judged or not arg.judged.scale:
            continue
        for case in cases:
            names, shape = arg.names_in(case), arg.shape_of(case)
            group = [evaluate(extent, names) for extent in arg.judged.group]
            if min(group) < 1:
                yield ("args", at, "judged"), f"the group size is {min(group)} with {case.dims}"
                break
            groups = math.prod(-(-n // size) for n, size in zip(shape, group, strict=True))
            scales = math.prod(by_name[arg.judged.scale].shape_of(case))
            if groups != scales and arg.present(case):
                extents = ", ".join(f"{name} = {extent}" for name, extent in case.dims.items())
                blocks = ", ".join(f'"{extent}"' for extent in arg.judged.group)
                what = (
                    f"group = [{blocks}] divides '{arg.name}' into {groups} groups, but"
                    f" '{arg.judged.scale}' has {scales} scales, with {extents}"
                )
                yield ("args", at, "judged"), what
                break


def _somewhere(domain: Domain, cases: Sequence[Case]) -> Iterator[Problem]:
    """What fails for legal dims."""
    for name, dim in domain.dims.items():
        for dtype in domain.dtypes:
            if not dim.allows(dim.nearest(dim.min, dtype), dtype):
                step = dim.step(dtype)
                what = f"no multiple of {step} between {dim.min} and {dim.max} for {dtype}"
                yield ("dims", name), what
                return
    for combination in domain.combinations:
        points = list(legal_points(domain, combination, [case.dims for case in cases]))
        if not points:
            yield _unmet(domain, combination)
            return
        for dims in points:
            yield from domain.flaws(combination.case(dims))


def _unmet(domain: Domain, combination: Combination) -> Problem:
    """The first relation that leaves no dims, or all together."""
    for end in range(1, len(domain.require) + 1):
        some = domain.model_copy(update={"require": domain.require[:end]})
        if not any(True for _ in legal_points(some, combination)):
            return ("require", end - 1), f"no valid dims meet '{domain.require[end - 1]}'"
    return ("require",), "no valid dims meet all relations"


def legal_points(
    domain: Domain, combination: Combination, known: Iterable[dict[str, int]] = ()
) -> Iterator[dict[str, int]]:
    """Legal dims at the ends of the domain and within it, at most some hundreds."""
    scalars, seen = domain.usual_scalars, set[tuple[int, ...]]()
    for dims in itertools.chain(known, _grid(domain, combination.dtype)):
        if set(dims) != set(domain.dims):
            continue
        legal = all(d.allows(dims[n], combination.dtype) for n, d in domain.dims.items())
        if not legal or broken(domain.require, {**scalars, **dims}):
            found = settled(domain.require, domain.dims, dims, combination.dtype, scalars=scalars)
        else:
            found = dict(dims)
        if found and (key := tuple(found[name] for name in domain.dims)) not in seen:
            seen.add(key)
            yield found


def _grid(domain: Domain, dtype: DTypeName) -> Iterator[dict[str, int]]:
    """All combinations of a few extents of each dim; of many, a drawn part with all extremes."""
    some = {name: _extents(dim, dtype) for name, dim in domain.dims.items()}
    count = 1
    for extents in some.values():
        count *= len(extents)
    if count <= MOST_POINTS:
        yield from (
            dict(zip(some, point, strict=True)) for point in itertools.product(*some.values())
        )
        return
    yield {name: extents[0] for name, extents in some.items()}
    yield {name: extents[-1] for name, extents in some.items()}
    rng = random.Random(0)
    for _ in range(MOST_POINTS):
        yield {name: rng.choice(extents) for name, extents in some.items()}


def _extents(dim: Dim, dtype: DTypeName) -> list[int]:
    if dim.values:
        return [value for value in dim.values if dim.allows(value, dtype)] or [dim.min]
    least, most = dim.nearest(dim.min, dtype), dim.nearest(dim.max, dtype)
    middle = dim.nearest(int((max(1, least) * most) ** 0.5), dtype)
    near = dim.nearest(least + dim.step(dtype), dtype)
    return sorted({least, near, middle, most})
