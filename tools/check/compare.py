"""Compares what a call left with the oracle: each written argument by its judgement kind
(tools/check/kinds.py), and what may not have changed.

The largest cases hold a hundred million elements, so pieces that fit a core's cache are compared on
all cores; every element is compared.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Literal, TypeVar

import numpy as np

from astra_chat.tools.check.error_pattern import MOST, error_pattern
from astra_chat.tools.check.floats import Array, as_float, as_int
from astra_chat.tools.check.kinds import (
    NOTES,
    comparison,
    judge_draws,
    most_off,
    vocabulary,
)
from astra_chat.tools.check.measured_values import coded, group_scales, scale_places
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Answer, Outputs, is_stated
from astra_chat.tools.task.buffer_layout import Mask
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Case, Wrong

PIECE = 2**17
"""Elements that a core looks at at a time."""
MAX_CORES, FREE_CORES = 16, 2
"""Most cores that compare, and cores that are left to a runner, which launches in the meantime and
times launches."""
MIN_SHARE = 0.5
"""Share that a sample of blocks has to write, at least, of the elements that as many blocks write
on average."""
PARTS, LEAST_BLOCKS = 8, 128
"""Equal parts of an argument of which a sample has to write some of each, if it has so many blocks
for each: in whatever order the grid goes through the argument, and where only one block of eight
writes, none is left out by chance."""
T = TypeVar("T")


def compare(task: Task, run: CaseRun) -> float | Wrong:
    """Worst |got - expected| / tolerance of a case, or what is wrong with it.

    Of several copies of the same call, those that equal the first byte for byte, guards included,
    are what it is.
    """
    worst = _compare_copy(task, run, 0, task.args)
    for copy in range(1, run.copies):
        if isinstance(worst, Wrong):
            return worst
        if run.repeats_the_first(task.args, copy):
            continue
        verdict = _compare_copy(task, run, copy, task.args)
        worst = verdict if isinstance(verdict, Wrong) else max(worst, verdict)
    return worst


def compare_written(task: Task, run: CaseRun) -> float | Wrong:
    """Returns the worst |got - expected| / tolerance, or what is wrong, of one call of which only
    the written arguments were handed over."""
    return _compare_copy(task, run, 0, [arg for arg in task.args if arg.written])


def changed_beside(task: Task, run: CaseRun) -> Wrong | None:
    """What a call changed beside its results: bytes round and between them, and arguments that may
    only be read; of the first copy."""
    outputs = _outputs(run, 0, task.args)
    return outputs if isinstance(outputs, Wrong) else None


def _compare_copy(task: Task, run: CaseRun, copy: int, args: Sequence[Arg]) -> float | Wrong:
    outputs = _outputs(run, copy, args)
    return outputs if isinstance(outputs, Wrong) else compare_outputs(task, run, outputs)


def _outputs(run: CaseRun, copy: int, args: Sequence[Arg]) -> dict[str, Array] | Wrong:
    """The bytes of the written ones, by name, unless anything beside them changed."""
    outputs: dict[str, Array] = {}
    for arg in args:
        if run.is_unchanged(arg):
            continue
        content, guards = run.after(arg, copy)
        if wrong := _outside(arg, run, guards) or _read_only(arg, run, content):
            return wrong
        if arg.written:
            outputs[arg.name] = content
    return outputs


def compare_outputs(task: Task, run: CaseRun, outputs: Outputs) -> float | Wrong:
    """Returns the worst |got - expected| / tolerance, or what is wrong, of these bytes of written
    arguments, whatever the run's files hold."""
    left = comparable(task, run, outputs)
    if isinstance(left, Wrong):
        return left
    worst = 0.0
    for arg in task.args:
        if arg.name in left:
            verdict = _written(task, arg, run, left)
            if isinstance(verdict, Wrong):
                return verdict
            worst = max(worst, verdict)
    return worst


def _outside(arg: Arg, run: CaseRun, changed: Mask) -> Wrong | None:
    """Returns what is wrong where a byte outside the argument changed. `changed`: a boolean for
    each byte round and between its elements."""
    touched = np.flatnonzero(changed)
    if not len(touched):
        return None
    return Wrong(
        case=run.oracle_case.case,
        argument=arg.name,
        reason="write_outside",
        index=(int(touched[0]),),
        expected=float("nan"),
        got=float("nan"),
        bad=len(touched),
        total=len(changed),
        note="bytes outside the argument changed",
    )


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
        case=run.oracle_case.case,
        argument=arg.name,
        reason="input_changed",
        index=_index(flat, arg.shape_of(run.oracle_case.case)),
        expected=float(as_float(before, dtype)[flat]),
        got=float(as_float(content, dtype)[flat]),
        bad=len(changed),
        total=len(before),
        note="a read-only argument changed",
    )


def _written(task: Task, arg: Arg, run: CaseRun, outputs: Outputs) -> float | Wrong:
    content = outputs[arg.name]
    if arg.judged_by(run.oracle_case.case) == "distribution":
        return _draws(task, arg, run, content) or 0.0
    case, expected = run.oracle_case.case, run.oracle_case.expected(arg)
    dtype, compared = arg.dtype_of(case), comparison(task, arg, case)
    item, covered = ITEM_BYTES[dtype], run.coverage(arg)

    @cache
    def flushed() -> Array | None:
        """Which scales of its codes the oracle flushes; looked at where a code is wrong."""
        scales = group_scales(task, arg, run, lambda scale: outputs.get(scale.name))
        return scales.flushed if scales else None

    def look(start: int) -> tuple[float, Array, int]:
        """The worst share of a piece, where it is bad, and how many are off."""
        stop = min(start + PIECE, len(expected))
        found = compared(content[start * item : stop * item], expected[start:stop])
        good, share, off = found.good, found.share, found.off
        if coded(arg) and not good.all() and (of_groups := flushed()) is not None:
            numbers = np.isfinite(as_float(content[start * item : stop * item], dtype))
            free = numbers & of_groups[scale_places(arg, case, np.arange(start, stop))]
            good, share = good | free, np.where(free, 0.0, share)
            off = None if off is None else off & ~free
        if covered is not None:
            ran = covered[start * item : stop * item].reshape(-1, item).any(axis=1)
            good, share, off = good | ~ran, share[ran], off if off is None else off & ran
        bad, worst = np.flatnonzero(~good) + start, float(np.nanmax(share, initial=0.0))
        return worst, bad, 0 if off is None else int(off.sum())

    looks = _everywhere(look, len(expected), PIECE)
    bad = [where for _, where, _ in looks if len(where)]
    if bad:
        return _bad_elements(task, arg, run, content, np.concatenate(bad))
    off = sum(count for *_, count in looks)
    return (
        _uncovered(arg, run, covered)
        or _many_off(task, arg, run, content, off)
        or max((worst for worst, *_ in looks), default=0.0)
    )


def _bad_elements(
    task: Task, arg: Arg, run: CaseRun, content: Array, bad: Array, note: str = ""
) -> Wrong:
    case, dtype = run.oracle_case.case, arg.dtype_of(run.oracle_case.case)
    expected, item, first = run.oracle_case.expected(arg), ITEM_BYTES[dtype], int(bad[0])
    element = content[first * item : (first + 1) * item]
    at = comparison(task, arg, case)(element, expected[first : first + 1])
    if run.oracle_case.has_canonical:
        note = "; ".join(filter(None, [note, "in canonical form"]))
    note = note or _allowed(arg.judged_by(case), bool(at.same_pattern[0]), at.allowed)
    if arg.judged_by(case) == "close" and not run.oracle_case.has_canonical:
        bytes_of = np.ascontiguousarray(content.reshape(-1, item)[bad[:MOST]]).ravel()
        width = max(1, arg.shape_of(case)[-1])
        wrong = as_float(bytes_of, dtype)
        pattern = error_pattern(wrong, expected[bad[:MOST]], bad[:MOST], width)
        note = "; ".join(filter(None, [pattern, note]))
    return Wrong(
        case=case,
        argument=arg.name,
        reason=_reason(run, element, bool(at.same_pattern[0])),
        index=_index(first, arg.shape_of(case)),
        expected=float(expected[first]),
        got=float(as_float(element, dtype)[0]),
        bad=len(bad),
        total=len(expected),
        note=note,
    )


def _allowed(judged_by: str, same_pattern: bool, allowed: Array) -> str:
    """What would be right; nothing where no error is measured, beside NaN or infinity."""
    if judged_by == "close" and not same_pattern:
        return ""
    return NOTES[judged_by].format(allowed=float(allowed[0]))


def _many_off(task: Task, arg: Arg, run: CaseRun, content: Array, count: int) -> Wrong | None:
    """More codes than may be are one step off. Where reference.py states the terms, each of them
    is judged by its place (bands.py)."""
    if not count or arg.judged is None or is_stated(run.oracle_case, arg):
        return None
    case, expected = run.oracle_case.case, np.asarray(run.oracle_case.expected(arg))
    covered, item = run.coverage(arg), ITEM_BYTES[arg.dtype_of(case)]
    of = len(expected) if covered is None else int(covered.reshape(-1, item).any(axis=1).sum())
    share = arg.judged.off_by_one
    if count <= most_off(share, of):
        return None
    off = comparison(task, arg, case)(content, expected).off
    assert off is not None, "some are"
    note = f"{count / of:.1%} of the codes are one step off; at most {share:.1%} may be"
    return _bad_elements(task, arg, run, content, np.flatnonzero(off), note)


def _draws(task: Task, arg: Arg, run: CaseRun, content: Array) -> Wrong | None:
    """Judges the draws that the blocks which ran made."""
    case, dtype = run.oracle_case.case, arg.dtype_of(run.oracle_case.case)
    draws, covered = as_int(content, dtype), run.coverage(arg)
    made: Array | None = None
    if covered is not None:
        made = np.any(covered.reshape(len(draws), -1), axis=1)
    symbols, chances = vocabulary(task, arg, case), run.oracle_case.expected(arg)
    refusal = judge_draws(draws, chances, symbols, made)
    if refusal is None:
        return _uncovered(arg, run, covered)
    return Wrong(
        case=case,
        argument=arg.name,
        reason="distribution",
        index=_index(refusal.place, arg.shape_of(case)),
        expected=float("nan"),
        got=float(draws[refusal.place]),
        bad=refusal.bad,
        total=len(draws),
        note=refusal.why,
    )


def _uncovered(arg: Arg, run: CaseRun, covered: Mask | None) -> Wrong | None:
    """The blocks of a sample must have written about their share, and some of each part of the
    argument: what none of them wrote is not compared, and a kernel must not have its work done by
    others, or by none. What is to stay as it was need not be written."""
    if covered is None:
        return None
    case, item = run.oracle_case.case, ITEM_BYTES[arg.dtype_of(run.oracle_case.case)]
    written: Mask = np.any(covered.reshape(-1, item), axis=1)
    left = np.flatnonzero(~written & _to_change(arg, run)) if arg.read else np.flatnonzero(~written)
    total = int(written.sum()) + len(left)
    first, note = int(left[0]) if len(left) else 0, f"{run.report.sampled} wrote "
    if total - len(left) < MIN_SHARE * run.report.sampled_share * total:
        note += f"less than {MIN_SHARE:.0%} of their share"
    elif (bare := _bare_part(written, left, run.report.spread_blocks)) is not None:
        first, note = bare, f"{note}no element of one of {PARTS} equal parts of the argument"
    else:
        return None
    drawn = arg.judged_by(case) == "distribution"
    expected = float("nan") if drawn else float(run.oracle_case.expected(arg)[first])
    return Wrong(
        case=case,
        argument=arg.name,
        reason="unwritten",
        index=_index(first, arg.shape_of(case)),
        expected=expected,
        got=float("nan"),
        bad=len(left),
        total=written.size,
        note=note,
    )


def _bare_part(written: Mask, left: Array, blocks: int) -> int | None:
    """The first element of what is to be written that lies in a part of which so many blocks,
    spread over the grid, wrote nothing; None where they are too few to say so. Parts are equal in
    elements to be written."""
    if blocks < PARTS * LEAST_BLOCKS:
        return None
    wanted = np.union1d(np.flatnonzero(written), left)
    for part in np.array_split(wanted, PARTS):
        if len(part) and not written[part].any():
            return int(part[0])
    return None


def _to_change(arg: Arg, run: CaseRun) -> Mask:
    """Which elements of an argument that is read and written are to hold another value after the
    call."""
    dtype = arg.dtype_of(run.oracle_case.case)
    expected = np.asarray(run.oracle_case.expected(arg))
    before = np.fromfile(run.oracle_case.input_path(arg), dtype=np.uint8)
    values = as_int(before, dtype) if expected.dtype.kind == "i" else as_float(before, dtype)
    same: Mask = (values == expected) | (np.isnan(values) & np.isnan(expected))
    return ~same


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
    run: CaseRun, element: Array, same_pattern: bool
) -> Literal["value", "nan_pattern", "unwritten"]:
    """ "unwritten" where the bytes of the first bad element are the poison's."""
    poison = np.array([run.pattern], dtype=np.uint16).view(np.uint8)
    if len(element) > 1 and np.array_equal(element, np.resize(poison, len(element))):
        return "unwritten"
    return "value" if same_pattern else "nan_pattern"


def _index(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, shape))


# Judgement kind `accept`, and outputs in canonical form: what reference.py says of outputs, where
# many are legal. It runs in the oracle process, walled, when the call has ended.

LONGEST = 500
"""Characters of what reference.py says."""


def comparable(task: Task, run: CaseRun, outputs: Outputs) -> Outputs | Wrong:
    """The outputs to be compared with the expected ones: in canonical form, where the task has one;
    without those that accept has judged. Wrong where it refuses them.

    Where all blocks cost too much even for this (runners/virtual.py), a sample of them leaves
    outputs that nobody can judge as a whole: only what is compared by its elements is left then,
    and nothing that needs a canonical form.
    """
    case = run.oracle_case.case
    asked = {arg.name for arg in task.args if arg.written and arg.judged_by(case) == "accept"}
    canonical = run.oracle_case.has_canonical
    if not asked and not canonical:
        return outputs
    if run.report.sampled:
        kept = () if canonical else outputs.keys() - asked
        return {name: outputs[name] for name in kept}
    for arg in task.args:
        if arg.written and arg.dtype_of(case) == "bool" and (outputs[arg.name] > 1).any():
            return _refused(task, case, outputs, Answer("a bool must be 0 or 1", arg.name))
    answer = run.oracle_case.answer(outputs)
    if answer.why:
        return _refused(task, case, outputs, answer)
    outputs = answer.canonical or outputs
    return {name: content for name, content in outputs.items() if name not in asked}


def _refused(task: Task, case: Case, outputs: Outputs, answer: Answer) -> Wrong:
    arg = _place(task, case, answer)
    shape, index = arg.shape_of(case), answer.index
    legal = len(index) == len(shape) and all(0 <= i < n for i, n in zip(index, shape, strict=True))
    got = float("nan")
    if legal:
        values = as_float(outputs[arg.name], arg.dtype_of(case))
        got = float(values[np.ravel_multi_index(index, shape)])
    return Wrong(
        case=case,
        argument=arg.name,
        reason="not_accepted",
        index=index if legal else (),
        expected=float("nan"),
        got=got,
        bad=1,
        total=len(outputs[arg.name]),
        note=answer.why[:LONGEST],
    )


def _place(task: Task, case: Case, answer: Answer) -> Arg:
    """The argument that is named, or the first that accept judges, or the first of all."""
    written = [arg for arg in task.args if arg.written]
    named = [arg for arg in written if arg.name == answer.argument]
    asked = [arg for arg in written if arg.judged_by(case) == "accept"]
    return [*named, *asked, *written][0]
