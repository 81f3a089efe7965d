"""Compares the outputs of a call with the float64 oracle, element by element.

The largest cases hold a hundred million elements, so pieces that fit a core's cache are compared on
all cores; every element is compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

import numpy as np

from astra_chat.tools.check.floats import OVERFLOW, Array, as_float
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.task.buffer_layout import Mask
from astra_chat.tools.task.folder import Arg, Task, Tolerance
from astra_chat.tools.types import ITEM_BYTES, DTypeName, Wrong

PIECE = 2**17
"""Elements that a core looks at at a time."""
MAX_CORES, FREE_CORES = 16, 2
"""A runner that launches in the meantime, and times launches, needs a core or two for itself."""
MIN_SHARE = 0.5
"""Of the elements that as many blocks write on average."""
T = TypeVar("T")


def compare(task: Task, run: CaseRun) -> float | Wrong:
    """Worst |got - expected| / tolerance of a case, or what is wrong with it.

    Of several copies of the same call, those that equal the first byte for byte, guards included,
    are what it is.
    """
    worst = _compare_copy(task, run, 0)
    for copy in range(1, run.copies):
        if isinstance(worst, Wrong):
            return worst
        if run.repeats_the_first(task.args, copy):
            continue
        verdict = _compare_copy(task, run, copy)
        worst = verdict if isinstance(verdict, Wrong) else max(worst, verdict)
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


def _outside(arg: Arg, run: CaseRun, changed: Mask) -> Wrong | None:
    """`changed`: of the bytes round and between its elements."""
    touched = np.flatnonzero(changed)
    if not len(touched):
        return None
    return Wrong(
        case=run.oracle_case.case, argument=arg.name, reason="write_outside",
        index=(int(touched[0]),),
        expected=float("nan"), got=float("nan"), bad=len(touched), total=len(changed),
        note="bytes outside the argument changed",
    )  # fmt: skip


def _read_only(arg: Arg, run: CaseRun, content: Array) -> Wrong | None:
    if not arg.constant or not arg.present(run.oracle_case.case):
        return None
    before = np.memmap(run.oracle_case.input_path(arg), dtype=np.uint8, mode="r")
    dtype = arg.dtype_of(run.oracle_case.case)
    step = PIECE * ITEM_BYTES[dtype]

    def same(start: int) -> bool:
        return np.array_equal(content[start : start + step], before[start : start + step])

    if all(_everywhere(same, len(content), step)):
        return None
    changed = np.flatnonzero(content != before)
    flat = int(changed[0]) // ITEM_BYTES[dtype]
    return Wrong(
        case=run.oracle_case.case, argument=arg.name, reason="input_changed",
        index=_index(flat, arg.shape_of(run.oracle_case.case)),
        expected=float(as_float(before, dtype)[flat]), got=float(as_float(content, dtype)[flat]),
        bad=len(changed), total=len(before), note="an argument that may only be read changed",
    )  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Comparison of values with the expected ones, element by element."""

    good: Array
    same_pattern: Array
    """NaN and infinity are where they belong."""
    share: Array
    """Error over the allowed error."""
    allowed: Array


def compare_values(
    got: Array, expected: Array, tolerance: Tolerance, dtype: DTypeName
) -> Comparison:
    """float64 against float64. NaN and infinity patterns first: no comparison with NaN is true."""
    overflow = OVERFLOW[dtype]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        beyond = np.abs(expected) > overflow * (1 + tolerance.rtol)
        same_pattern = (np.isnan(got) == np.isnan(expected)) & (
            ~beyond | (np.isinf(got) & (np.sign(got) == np.sign(expected)))
        )
        target = np.clip(expected, -overflow, overflow)
        allowed = tolerance.atol + tolerance.rtol * np.abs(target)
        error = np.abs(np.clip(got, -overflow, overflow) - target)
        share = np.where(error == 0, 0.0, error / allowed)
    good = same_pattern & ((share <= 1.0) | np.isnan(expected))
    return Comparison(good, same_pattern, share, allowed)


def _written(task: Task, arg: Arg, run: CaseRun, content: Array) -> float | Wrong:
    case, dtype = run.oracle_case.case, arg.dtype_of(run.oracle_case.case)
    expected, item = run.oracle_case.expected(arg), ITEM_BYTES[arg.dtype_of(case)]
    covered = run.coverage(arg)

    def compared(start: int, stop: int) -> Comparison:
        got = as_float(content[start * item : stop * item], dtype)
        return compare_values(got, expected[start:stop], task.tolerance[dtype], dtype)

    def look(start: int) -> tuple[float, Array]:
        """The worst share of a piece, and where it is bad."""
        stop = min(start + PIECE, len(expected))
        comparison = compared(start, stop)
        good, share = comparison.good, comparison.share
        if covered is not None:
            ran = covered[start * item : stop * item].reshape(-1, item).any(axis=1)
            good, share = good | ~ran, share[ran]
        return float(np.nanmax(share, initial=0.0)), np.flatnonzero(~good) + start

    looks = _everywhere(look, len(expected), PIECE)
    bad = [where for _, where in looks if len(where)]
    if not bad:
        return _uncovered(arg, run, covered) or max((worst for worst, _ in looks), default=0.0)
    first = int(bad[0][0])
    at = compared(first, first + 1)
    return Wrong(
        case=case, argument=arg.name,
        reason=_reason(run, content, dtype, first, bool(at.same_pattern[0])),
        index=_index(first, arg.shape_of(case)), expected=float(expected[first]),
        got=float(as_float(content[first * item : (first + 1) * item], dtype)[0]),
        bad=sum(map(len, bad)), total=len(expected),
        note=f"allowed error there: {float(at.allowed[0]):.3g}",
    )  # fmt: skip


def _uncovered(arg: Arg, run: CaseRun, covered: Mask | None) -> Wrong | None:
    """The blocks of a sample must have written about their share: what none of them wrote is not
    compared, and a kernel must not have its work done by others, or by none."""
    if covered is None:
        return None
    item = ITEM_BYTES[arg.dtype_of(run.oracle_case.case)]
    written: Mask = np.any(covered.reshape(-1, item), axis=1)
    if float(written.mean()) >= MIN_SHARE * run.report.sampled_share:
        return None
    first = int(np.argmin(written))
    return Wrong(
        case=run.oracle_case.case, argument=arg.name, reason="unwritten",
        index=_index(first, arg.shape_of(run.oracle_case.case)),
        expected=float(run.oracle_case.expected(arg)[first]), got=float("nan"),
        bad=int((~written).sum()), total=written.size,
        note=f"{run.report.sampled} wrote less than {MIN_SHARE:.0%} of their share",
    )  # fmt: skip


def _everywhere(look: Callable[[int], T], length: int, step: int) -> list[T]:
    """`look` at every multiple of `step` below `length`, in order; on all cores if there are many.

    NumPy lets go of the interpreter while it works.
    """
    starts = range(0, length, step)
    return list(_cores().map(look, starts) if len(starts) > 1 else map(look, starts))


@cache
def _cores() -> ThreadPoolExecutor:
    cores = os.cpu_count() or 1
    used = max(min(cores, FREE_CORES), cores - FREE_CORES)
    return ThreadPoolExecutor(min(MAX_CORES, used), "astra-compare")


def _reason(
    run: CaseRun, content: Array, dtype: DTypeName, first: int, same_pattern: bool
) -> Literal["value", "nan_pattern", "unwritten"]:
    """ "unwritten" where the first bad element still holds the poison."""
    words = content.view(np.uint16).reshape(-1, ITEM_BYTES[dtype] // 2)
    if (words[first] == run.pattern).all():
        return "unwritten"
    return "value" if same_pattern else "nan_pattern"


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))
