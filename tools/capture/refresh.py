"""A task.toml with the cases of captured calls.

Parameters of an operator are mapped to arguments, dims and scalars of the contract. The calls
become bench, check and demo cases, with a domain round them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from astra_chat.tools.capture.calls import Calls, SeenCall, SeenOperator
from astra_chat.tools.capture.findings import call_text, groups_of
from astra_chat.tools.capture.fitting import CallFit
from astra_chat.tools.new.draft import MARK
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.task.case_text import case_text
from astra_chat.tools.task.contract import Dim, Scalar
from astra_chat.tools.task.domain import MAX_BYTES, Domain
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.task.groups import Group, group_problems, in_rows
from astra_chat.tools.task.task_file import problem_lines, problems_of, task_fields
from astra_chat.tools.task.toml_edits import (
    loaded,
    with_dim,
    with_fields,
    with_pair,
    with_rows,
    without_comments,
)
from astra_chat.tools.types import Case
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import BadInput, reading

ANY_EXTENT = {"min": 0, "max": 2**62}
FIELDS = ("args", "scalars", "dims", "types", "require", "packed", "same", "flops", "least_bytes")
"""What of task.toml says which calls are legal."""


@dataclass(frozen=True)
class Refreshed:
    """What became of the captured calls."""

    cases: int
    share: float
    """The share of the calls for which the timed cases stand."""
    lines: tuple[str, ...]
    """What else has to be said."""


def refresh(
    folder: Path,
    calls: Calls,
    op: str | None = None,
    map_texts: Sequence[str] = (),
    *,
    source: str = "captured calls",
    domain_too: bool = False,
) -> Refreshed:
    """Write the bench list of a task again, from captured calls; with `domain_too` its check and
    demo cases and the ranges of its dims as well. Raises BadInput; the task.toml stays as it was.
    """
    path, operator = folder / "task.toml", calls.operator(op)
    with reading(path):
        before = path.read_text()
    domain, raw = _domain(path, before, any_extent=domain_too)
    names = mapped(domain, operator, parse_map(map_texts), _binding(raw))
    text = before
    if domain_too:
        text = _with_scalars(before, domain, names, operator)
        text = _with_groups(text, domain, names, operator)
        domain, raw = _domain(path, text, any_extent=True)
    found = fitted(domain, names, operator)
    text = _with_cases(text, domain, found, operator, source, domain_too)
    if domain_too:
        text = _with_dims(text, raw, found)
    write_whole(path, text.encode())
    try:
        load_task(folder)
    except BadInput:
        write_whole(path, before.encode())
        raise
    timed = bench_cases(found)
    share = sum(count for _, count in timed) / operator.count
    return Refreshed(len(timed), share, tuple(found.lines()))


def _domain(path: Path, text: str, *, any_extent: bool) -> tuple[Domain, dict[str, Any]]:
    """The legal domain of a task.toml, of which cases may be wrong; and its tables."""
    try:
        raw = loaded(text)
        fields = {key: value for key, value in task_fields(raw).items() if key in FIELDS}
        if any_extent:
            fields["dims"] = {name: ANY_EXTENT for name in raw.get("dims", {})}
            fields.pop("require", None)
        return Domain.model_validate(fields), raw
    except ValidationError as error:
        raise BadInput(problem_lines(path, text, problems_of(error))) from None
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from None


def _with_scalars(
    text: str, domain: Domain, names: Mapping[str, str], operator: SeenOperator
) -> str:
    for at, scalar in enumerate(domain.scalars):
        if fields := scalar_of(scalar, names.get(scalar.name, ""), operator):
            text = with_fields(text, ("scalars", at), fields)
            text = without_comments(text, ("scalars", at), MARK)
    return text


def _with_groups(
    text: str, domain: Domain, names: Mapping[str, str], operator: SeenOperator
) -> str:
    """Arguments that calls pass as views of one buffer, or by one pointer, where the contract names
    none and may name them."""
    for key, at_once in (("packed", False), ("same", True)):
        groups = seen_groups(domain, names, operator, by_one_pointer=at_once)
        if groups and not getattr(domain, key):
            text = with_pair(text, key, groups, after="entry")
    return text


def _with_dims(text: str, raw: dict[str, Any], found: FittedCalls) -> str:
    for name, drafted in raw.get("dims", {}).items():
        text = with_dim(text, name, dim_of(name, found, drafted))
        text = without_comments(text, ("dims", name), MARK)
    return text


def _binding(raw: dict[str, Any]) -> list[str | None]:
    """Which tensor of the contract the task's launcher passes for each tensor of the operator,
    where it says so: a function that returns nothing may be called in another order."""
    table = raw.get("binding", {})
    if "operator" not in table and not table.get("returns"):
        return []
    tensors = {arg["name"] for arg in raw.get("args", [])}
    given = (*table.get("args", ()), *table.get("returns", ()))
    return [name for name in given if isinstance(name, str) and name in tensors]


def _with_cases(
    text: str,
    domain: Domain,
    found: FittedCalls,
    operator: SeenOperator,
    source: str,
    domain_too: bool,
) -> str:
    timed = bench_cases(found)
    count = sum(count for _, count in timed)
    calls = counted(operator.count, "call")
    comment = f"{source}: {count:,} of {calls} of {operator.name}; weight = calls"
    text = without_comments(text, ("bench",), MARK)
    text = with_rows(text, "bench", rows(timed, domain.scalars), comment)
    if domain_too:
        text = without_comments(text, ("check",), MARK)
        checked = [case_text(case, domain.scalars) for case in check_cases(domain, found)]
        text = with_rows(text, "check", checked, f"{source}: a small call of each kind")
        least = rows(demo_cases(domain, found), domain.scalars)
        text = with_rows(text, "demo", least, f"{source}: the smallest of the timed calls")
    return text


@dataclass(frozen=True)
class Names:
    """The parameters of an operator, as its calls name them, by what they hold."""

    tensors: tuple[str, ...]
    """In the operator's order; results are behind the arguments."""
    others: tuple[str, ...]


def names_of(operator: SeenOperator) -> Names:
    """What its calls pass and return. A parameter that is None in all calls is no tensor."""
    tensors, others = dict[str, None](), dict[str, None]()
    for call in operator.calls:
        tensors |= dict.fromkeys(_in_order(call, operator.declared))
        others |= dict.fromkeys(call.values)
    results = {name: None for call in operator.calls for name in new_results(call)}
    return Names((*tensors, *results), tuple(name for name in others if name not in tensors))


def new_results(call: SeenCall) -> list[str]:
    """Results that are no arguments again."""
    places = {(t.buffer, t.offset_bytes, t.shape) for t in call.tensors.values()}
    return [n for n, t in call.results.items() if (t.buffer, t.offset_bytes, t.shape) not in places]


def _in_order(call: SeenCall, declared: str) -> list[str]:
    """A call's tensors in the order in which they are declared, those passed by name too."""
    words = declared.replace("(", " ").replace(",", " ").replace(":", " ").replace(")", " ").split()
    places = {word: at for at, word in reversed(list(enumerate(words)))}
    return sorted(call.tensors, key=lambda name: places.get(name.partition("[")[0], len(words)))


def parse_map(texts: Sequence[str]) -> dict[str, str]:
    """ "x=input" of --map: the contract's name, then the operator's. Raises BadInput."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, parameter) in zip(texts, pairs, strict=True):
        if not (name and equals and parameter):
            raise BadInput(f"--map {text}: write NAME=PARAMETER, the contract's name first")
    return {name: parameter for name, _, parameter in pairs}


def mapped(
    domain: Domain,
    operator: SeenOperator,
    given: Mapping[str, str],
    binding: Sequence[str | None] = (),
) -> dict[str, str]:
    """Parameters by the contract's names: as `given`, else of one name, else in one order.
    `binding` names what the task's launcher passes for each parameter. Raises BadInput."""
    names, found = names_of(operator), dict(given)
    _require_known(domain, names, given)
    tensors = [arg.name for arg in domain.args if arg.access != "workspace"]
    for name in (*tensors, *domain.dims, *(s.name for s in domain.scalars)):
        if name in names.tensors + names.others and name not in found:
            found[name] = name
    left = [n for n in tensors if n not in found]
    free = [name for name in names.tensors if name not in found.values()]
    if operator.shapes_only and len(left) > len(free):
        written = {arg.name for arg in domain.args if arg.access == "write"}
        left = [name for name in left if name not in written]
    if binding and len(binding) == len(names.tensors):
        pairs = zip(binding, names.tensors, strict=True)
        found |= {name: p for name, p in pairs if name in left and p in free}
    elif len(left) == len(free):
        found |= dict(zip(left, free, strict=True))
    optional = {arg.name for arg in domain.args if arg.optional}
    if lacking := [name for name in left if name not in found and name not in optional]:
        raise BadInput(
            f"{operator.name}: which of its tensors ({', '.join(free) or 'none is left'}) is"
            f" '{lacking[0]}' in the contract? Answer with --map {lacking[0]}=PARAMETER"
        )
    return found


def _require_known(domain: Domain, names: Names, given: Mapping[str, str]) -> None:
    known = {*(a.name for a in domain.args), *domain.dims, *(s.name for s in domain.scalars)}
    for name, parameter in given.items():
        if name not in known:
            raise BadInput(f"--map {name}={parameter}: the contract has no '{name}'")
        if parameter not in names.tensors + names.others:
            some = ", ".join(names.tensors + names.others)
            raise BadInput(f"--map {name}={parameter}: the operator has no '{parameter}': {some}")


MOST_BENCH = 16
MOST_CHECK = 16
MOST_DEMO = 3


@dataclass
class FittedCalls:
    """The cases of an operator's calls, with how often each was called."""

    counts: dict[str, int] = field(default_factory=dict)
    """Calls by the case's key."""
    cases: dict[str, Case] = field(default_factory=dict)
    misfits: dict[str, int] = field(default_factory=dict)
    """Calls that are no case of the contract, by what is said of them."""
    remarks: dict[str, int] = field(default_factory=dict)
    """What calls do that the contract does not say."""

    @property
    def by_count(self) -> list[tuple[Case, int]]:
        """Cases with their counts, the most frequent first."""
        order = sorted(self.counts, key=lambda key: -self.counts[key])
        return [(self.cases[key], self.counts[key]) for key in order]

    def lines(self) -> Iterator[str]:
        """What has to be said of them."""
        for words, count in self.misfits.items():
            yield f"outside the contract: {counted(count, 'call')}: {words}"
        for words, count in self.remarks.items():
            yield f"in {counted(count, 'call')} {words}"


def fitted(domain: Domain, names: Mapping[str, str], operator: SeenOperator) -> FittedCalls:
    """All calls as cases. Raises BadInput where none is one."""
    found = FittedCalls()
    for call in operator.calls:
        try:
            fit = CallFit(domain, names, call, shapes_only=operator.shapes_only)
            case = fit.case()
            domain.require_legal(case)
        except ValueError as error:
            found.misfits[str(error)] = found.misfits.get(str(error), 0) + call.count
            continue
        found.cases[case.key] = case
        found.counts[case.key] = found.counts.get(case.key, 0) + call.count
        for remark in fit.remarks(case):
            found.remarks[remark] = found.remarks.get(remark, 0) + call.count
    if not found.cases:
        first = call_text(operator.calls[0]) if operator.calls else "there is none"
        why = next(iter(found.misfits), "")
        raise BadInput(f"no call of {operator.name} fits the contract: {why} ({first})")
    return found


def bench_cases(found: FittedCalls) -> list[tuple[Case, int]]:
    """The most frequent ones."""
    return found.by_count[:MOST_BENCH]


def check_cases(domain: Domain, found: FittedCalls) -> list[Case]:
    """Small ones: first one of each kind, that is of dtypes, absent arguments, scalars, paddings
    and places, then others."""
    order = sorted((case for case, _ in found.by_count), key=domain.size_bytes)
    small = [case for case in order if domain.buffer_bytes(case) <= MAX_BYTES] or order[:1]
    kinds: dict[Any, Case] = {}
    for case in small:
        kinds.setdefault(_kind(case), case)
    first = list(kinds.values())
    return [*first, *(case for case in small if case not in first)][:MOST_CHECK]


def _kind(case: Case) -> Any:
    scalars, types = tuple(case.scalars.items()), tuple(case.types.items())
    return case.dtype, types, case.absent, scalars, tuple(case.pads), case.packed


def demo_cases(domain: Domain, found: FittedCalls) -> list[tuple[Case, int]]:
    """The least of the timed ones."""
    return sorted(bench_cases(found), key=lambda pair: domain.size_bytes(pair[0]))[:MOST_DEMO]


def rows(cases: Sequence[tuple[Case, int]], scalars: Sequence[Scalar]) -> list[str]:
    """Lines of task.toml for timed cases: how often each was called is its weight."""
    return [
        case_text(case, scalars).removesuffix(" }") + f", weight = {count} }}"
        for case, count in cases
    ]


def scalar_of(scalar: Scalar, parameter: str, operator: SeenOperator) -> dict[str, Any]:
    """The values of a scalar in the captured calls: the most frequent is the usual one."""
    counts: Counter[float] = Counter()
    for call in operator.calls:
        seen = call.values.get(parameter)
        if seen and seen.counts:
            counts.update(dict(seen.counts))
        elif seen and isinstance(seen.value, int):
            counts[seen.value] += call.count
    order = [_as(scalar, value) for value, _ in counts.most_common()]
    if not order:
        return {}
    others = {"values": order} if scalar.type == "bool" else {"others": order[1:]}
    return {"value": order[0], **(others if len(order) > 1 else {})}


def seen_groups(
    domain: Domain, names: Mapping[str, str], operator: SeenOperator, *, by_one_pointer: bool
) -> list[list[str]]:
    """Arguments that share a buffer in some call, in the order in which they lie: rows beside each
    other, or all at one address. Each is in one group."""
    arguments = {parameter: name for name, parameter in names.items()}
    found: list[list[str]] = []
    for call in operator.calls:
        for group in groups_of(call):
            offsets = [call.tensors[name].offset_bytes for name in group]
            known = [arguments[name] for name in group if name in arguments]
            apart = len(set(offsets)) == len(offsets)
            if (len(set(offsets)) == 1) != by_one_pointer or not (by_one_pointer or apart):
                continue
            if len(known) > 1 and not any(set(known) & set(other) for other in found):
                found.append(known)
    groups = [Group(args=tuple(group)) for group in found]
    packed, same = ([], groups) if by_one_pointer else (groups, [])
    wrong = {place[1] for place, _ in group_problems(domain.args, packed, same)}
    able = [group for at, group in enumerate(found) if at not in wrong]
    by_name = {arg.name: arg for arg in domain.args}
    return [group for group in able if by_one_pointer or in_rows([by_name[name] for name in group])]


def _as(scalar: Scalar, value: float) -> float:
    kinds: dict[str, type[float]] = {"float": float, "bool": bool, "int64_t": int}
    return kinds[scalar.type](value)


def dim_of(name: str, found: FittedCalls, drafted: Mapping[str, Any]) -> dict[str, Any]:
    """The range of a dim in the captured calls; one extent in all of them is the only legal one.
    Multiples that the draft names stay where all calls have them."""
    extents = sorted({case.dims[name] for case in found.cases.values()})
    if len(extents) == 1:
        return {"values": extents}
    kept = {key: drafted[key] for key in ("multiple_of", "multiple_of_bytes") if key in drafted}
    dim = {"min": extents[0], "max": extents[-1], **kept}
    legal = Dim.model_validate(dim)
    fits = all(legal.allows(case.dims[name], case.dtype) for case in found.cases.values())
    return dim if fits else {"min": extents[0], "max": extents[-1]}
