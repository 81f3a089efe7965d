"""Correctness: what a candidate left behind against the float64 oracle, argument by argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from astra_chat.tools.build import Build
from astra_chat.tools.oracle import Truth
from astra_chat.tools.runner import CaseRun, Failure, Runner
from astra_chat.tools.tasks import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Correct, DTypeName, Wrong

Array = np.ndarray[Any, Any]

OVERFLOW = {"float16": 2.0**16, "bfloat16": 2.0**128, "float32": 2.0**128}
"""Where a dtype has become infinite: larger results must be infinite too."""


def check(
    runner: Runner,
    build: Build,
    truths: Sequence[Truth],
    on_case: Callable[[int], None] = lambda _: None,
) -> Correct | Wrong | Failure:
    """Run every case and compare; the first failure ends it. Small cases should come first."""
    worst, sampled = 0.0, []
    for done, run in enumerate(runner.run(build, truths, "check"), start=1):
        if not isinstance(run, CaseRun):
            return run
        verdict = compare(runner.task, run)
        if isinstance(verdict, Wrong):
            return verdict
        worst = max(worst, verdict)
        if note := run.report.get("sampled"):
            sampled.append(f"{run.truth.case.label}: {note}")
        on_case(done)
    return Correct(cases=len(truths), sampled=tuple(sampled), worst=worst)


def compare(task: Task, run: CaseRun) -> float | Wrong:
    """Worst |got - expected| / tolerance of a case, or what is wrong with it."""
    worst = 0.0
    for copy in range(run.copies):
        verdict = _compare_copy(task, run, copy)
        if isinstance(verdict, Wrong):
            return verdict
        worst = max(worst, verdict)
    return worst


def _compare_copy(task: Task, run: CaseRun, copy: int) -> float | Wrong:
    worst = 0.0
    for arg in task.args:
        content, guards = run.after(arg, copy)
        if wrong := _outside(arg, run, guards) or _read_only(arg, run, content):
            return wrong
        if arg.written:
            verdict = _written(task, arg, run, content)
            if isinstance(verdict, Wrong):
                return verdict
            worst = max(worst, verdict)
    return worst


def _outside(arg: Arg, run: CaseRun, guards: Array) -> Wrong | None:
    touched = np.flatnonzero(guards.view(np.uint16) != run.pattern) if len(guards) else guards
    if not len(touched):
        return None
    return Wrong(
        case=run.truth.case, argument=arg.name, reason="write_outside", index=(int(touched[0]),),
        expected=float("nan"), got=float("nan"), bad=len(touched), total=len(guards) // 2,
        note="bytes outside the argument changed",
    )  # fmt: skip


def _read_only(arg: Arg, run: CaseRun, content: Array) -> Wrong | None:
    if arg.written:
        return None
    before = np.fromfile(run.truth.input_path(arg), dtype=np.uint8)
    changed = np.flatnonzero(content != before)
    if not len(changed):
        return None
    dtype = arg.dtype_of(run.truth.case)
    flat = int(changed[0]) // ITEM_BYTES[dtype]
    return Wrong(
        case=run.truth.case, argument=arg.name, reason="input_changed",
        index=_index(flat, arg.shape_of(run.truth.case)),
        expected=float(as_float(before, dtype)[flat]), got=float(as_float(content, dtype)[flat]),
        bad=len(changed), total=len(before), note="an argument that may only be read changed",
    )  # fmt: skip


def _written(task: Task, arg: Arg, run: CaseRun, content: Array) -> float | Wrong:
    """NaN and infinity patterns first: a comparison with NaN is never true by itself."""
    case, dtype = run.truth.case, arg.dtype_of(run.truth.case)
    got, expected = as_float(content, dtype), run.truth.expected(arg)
    tolerance, overflow = task.tolerance[dtype], OVERFLOW[dtype]
    with np.errstate(invalid="ignore", over="ignore"):
        beyond = np.abs(expected) > overflow * (1 + tolerance.rtol)
        same_pattern = (np.isnan(got) == np.isnan(expected)) & (
            ~beyond | (np.isinf(got) & (np.sign(got) == np.sign(expected)))
        )
        target = np.clip(expected, -overflow, overflow)
        allowed = tolerance.atol + tolerance.rtol * np.abs(target)
        share = np.abs(np.clip(got, -overflow, overflow) - target) / allowed
    good = same_pattern & ((share <= 1.0) | np.isnan(expected))
    if (covered := run.coverage(arg)) is not None:
        ran = covered.reshape(-1, ITEM_BYTES[dtype]).any(axis=1)
        good |= ~ran
        share = share[ran]
    bad = np.flatnonzero(~good)
    if not len(bad):
        return float(np.nanmax(share, initial=0.0))
    first = int(bad[0])
    return Wrong(
        case=case, argument=arg.name,
        reason=_reason(run, content, dtype, first, bool(same_pattern[first])),
        index=_index(first, arg.shape_of(case)),
        expected=float(expected[first]), got=float(got[first]), bad=len(bad), total=len(good),
        note=f"allowed error there: {float(allowed[first]):.3g}",
    )  # fmt: skip


def _reason(
    run: CaseRun, content: Array, dtype: DTypeName, first: int, same_pattern: bool
) -> Literal["value", "nan_pattern", "unwritten"]:
    """ "unwritten" where the first bad element still holds the poison."""
    words = content.view(np.uint16).reshape(-1, ITEM_BYTES[dtype] // 2)
    if (words[first] == run.pattern).all():
        return "unwritten"
    return "value" if same_pattern else "nan_pattern"


def as_float(content: Array, dtype: DTypeName) -> Array:
    """Bytes of a dtype as float64, exactly."""
    if dtype == "bfloat16":
        widened = content.view(np.uint16).astype(np.uint32) << 16
        typed: Array = widened.view(np.float32)
    else:
        typed = content.view({"float16": np.float16, "float32": np.float32}[dtype])
    with np.errstate(invalid="ignore"):  # a signalling NaN is as good a NaN as any
        return typed.astype(np.float64)


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
