"""Bench, check and demo cases of captured calls, and the domain round them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from astra_chat.tools.capture.calls import SeenOperator
from astra_chat.tools.capture.findings import call_text, groups_of
from astra_chat.tools.capture.fitting import CallFit
from astra_chat.tools.task.case_text import case_text
from astra_chat.tools.task.contract import Dim, Scalar
from astra_chat.tools.task.domain import MAX_BYTES, Domain
from astra_chat.tools.task.groups import Group, group_problems, in_rows
from astra_chat.tools.types import Case
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import BadInput

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
