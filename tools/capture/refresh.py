"""A task.toml with the cases of captured calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from astra_chat.tools.capture.calls import Calls, SeenOperator
from astra_chat.tools.capture.case_lists import (
    FittedCalls,
    bench_cases,
    check_cases,
    demo_cases,
    dim_of,
    fitted,
    rows,
    scalar_of,
    seen_groups,
)
from astra_chat.tools.capture.mapping import mapped, parse_map
from astra_chat.tools.new.draft import MARK
from astra_chat.tools.system.whole_file import write_whole
from astra_chat.tools.task.case_text import case_text
from astra_chat.tools.task.domain import Domain
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.task.task_file import problem_lines, problems_of, task_fields
from astra_chat.tools.task.toml_edits import (
    loaded,
    with_dim,
    with_fields,
    with_pair,
    with_rows,
    without_comments,
)
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
    for field, at_once in (("packed", False), ("same", True)):
        groups = seen_groups(domain, names, operator, by_one_pointer=at_once)
        if groups and not getattr(domain, field):
            text = with_pair(text, field, groups, after="entry")
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
