"""Why a baseline fails a legal case: the case is judged again with one thing set back to usual.

The usual is a case of the task that the baseline passes. What makes the failing case right when it
alone is set back is a cause: a dim, a scalar, a dtype, a stride, an address, an absent argument or
the values of the inputs (after Zeller and Hildebrandt's delta debugging, IEEE TSE 28, 2002, with
one change at a time).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.case import PACKED_TEXT
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.check.lost_cases import Failed, dtypes_text
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.placement import packed_pads
from astra_chat.tools.types import Case

MOST_CASES = 4
"""Failing cases of which other causes than values are looked for."""


@dataclass(frozen=True)
class Change:
    """A case with one thing set back."""

    case: Case
    back: str
    """What it was set back to: "eps = 1e-06 instead of 0.01"."""
    values: bool = False
    """Only the values of the inputs are others."""


@dataclass(frozen=True)
class Explained:
    """A case that the baseline fails, and what makes it right."""

    failed: Failed
    right_with: tuple[str, ...] = ()
    by_values: bool = False
    """Other values of the inputs make it right: whatever else may do so, by other numbers that are
    drawn then."""
    tried: bool = False

    def __str__(self) -> str:
        if not self.tried:
            return str(self.failed)
        if not self.right_with:
            return f"{self.failed}; no single dim, scalar or dtype is the cause"
        return f"{self.failed}; correct with {', or with '.join(self.right_with)}"


def explained(
    task: Task,
    checker: Checker,
    oracle: Oracle,
    stop: Stop,
    failed: Sequence[Failed],
    passed: Sequence[Case],
) -> list[Explained]:
    """Judge the baseline on variants of the failing cases. `passed` are cases that it passes.

    Normal values come first, of every case whose values are others: where they make it right, the
    cause is there, and nothing else is tried. Other causes are looked for in the first few cases.
    """
    found, looked_into = [], 0
    for one in failed:
        variants = list(changes(task, one.case, passed)) if passed else []
        right = _right(checker, oracle, stop, [change for change in variants if change.values])
        looked = by_values = bool(right)
        if not right and variants and looked_into < MOST_CASES:
            looked_into, looked = looked_into + 1, True
            others = [change for change in variants if not change.values]
            right = _right(checker, oracle, stop, others)
        backs = tuple(change.back for change in right)
        found.append(Explained(one, backs, by_values, tried=looked))
    return found


def _right(
    checker: Checker, oracle: Oracle, stop: Stop, variants: Sequence[Change]
) -> list[Change]:
    """The variants that the baseline passes; each is learned alone, so that one that ends its
    process leaves the others."""
    right = []
    for variant in variants:
        (oracle_case,) = oracle.oracle_cases([variant.case], stop)
        if not checker.learn([oracle_case]) and checker.baseline_errors.knows(variant.case):
            right.append(variant)
    return right


def changes(task: Task, case: Case, passed: Sequence[Case]) -> Iterator[Change]:
    """The legal cases that differ from this one in one thing, which is usual; where arguments are
    packed, in the strides that follow from it, too."""
    for change in _all_changes(task, case, _nearest(case, passed)):
        if change.case.packed == "rows" and not task.allows(change.case):
            change = replace(change, case=packed_pads(task, change.case))
        if task.allows(change.case):
            yield change


def _nearest(case: Case, passed: Sequence[Case]) -> Case:
    """Returns the passing case that has most extents and dtypes in common with this one."""

    def common(other: Case) -> int:
        same = (case.dtype, case.types) == (other.dtype, other.types)
        return len(case.dims) * same + sum(other.dims[n] == e for n, e in case.dims.items())

    return max(passed, key=common)


def _all_changes(task: Task, case: Case, usual: Case) -> Iterator[Change]:
    for scalar in task.scalars:
        value, back = scalar.value_in(case), scalar.value_in(usual)
        if value != back:
            scalars = {**case.scalars, scalar.name: back}
            words = f"{scalar.name} = {back:g} instead of {value:g}"
            yield Change(case.model_copy(update={"scalars": scalars}), words)
    for name, extent in case.dims.items():
        if (back := usual.dims[name]) != extent:
            dims = {**case.dims, name: back}
            words = f"{name} = {back} instead of {extent}"
            yield Change(case.model_copy(update={"dims": dims}), words)
    if (case.dtype, case.types) != (usual.dtype, usual.types):
        other = case.model_copy(update={"dtype": usual.dtype, "types": usual.types})
        yield Change(other, f"{dtypes_text(usual)} instead of {dtypes_text(case)}")
    for what, empty in (
        ("contiguous arguments instead of padded ones", {"pad": 0, "pads": {}}),
        ("aligned arguments instead of shifted ones", {"offset": 0, "offsets": {}}),
        (f"{', '.join(case.absent)} instead of null", {"absent": ()}),
    ):
        if any(getattr(case, name) for name in empty):
            yield Change(case.model_copy(update=empty), what)
    if case.packed not in ("", "apart"):
        what = f"arguments in buffers of their own instead of {PACKED_TEXT[case.packed]}"
        yield Change(case.model_copy(update={"packed": "apart"}), what)
    if case.values != "normal" or case.families or case.planted:
        plain = case.model_copy(update={"values": "normal", "families": {}, "planted": {}})
        families: list[str] = sorted({*case.families.values(), case.values} - {"normal"})
        families += ["planted ones"] * bool(case.planted)
        yield Change(plain, f"normal values instead of {', '.join(families)}", values=True)
