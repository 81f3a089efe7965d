"""The numbers of a run whose precision is measured: floats, and what codes mean."""

from __future__ import annotations

import numpy as np

from astra_chat.tools.check.floats import Array, as_float
from astra_chat.tools.check.kinds.quantized import dequantized, group_places, to_code
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.task.contract import MEASURED
from astra_chat.tools.task.expressions import evaluate
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Case

PART = 2**18
"""Elements of a timed result that are looked at: as many tell its errors, and take no time."""

Piece = tuple[Arg, Case, Array, Array, Array]
"""Of a written argument on a case: got, expected, and their flat positions."""


def measured_args(task: Task, run: CaseRun) -> list[Arg]:
    """Written arguments whose errors mean something: not those that are exact, right in other ways
    or absent, nor any where only a canonical form of the outputs can be compared."""
    if run.oracle_case.has_canonical:
        return []
    case = run.oracle_case.case
    written = [arg for arg in task.args if arg.written and arg.present(case)]
    return [arg for arg in written if arg.judged_by(case) in MEASURED]


def pieces(task: Task, run: CaseRun) -> list[Piece]:
    """A piece of every such argument, drawn at random like the copy that it is of."""
    case, copy = run.oracle_case.case, run.seed.of("copy").random().randrange(run.copies)
    return [(arg, case, *elements(task, arg, run, copy, PART)) for arg in measured_args(task, run)]


def elements(
    task: Task, arg: Arg, run: CaseRun, copy: int = 0, most: int | None = None
) -> tuple[Array, Array, Array]:
    """Got and expected, float64, where a block ran, and those flat positions; `most` of them in a
    row, from anywhere. Of codes what they mean, in units of the expected code."""
    dtype = arg.dtype_of(run.oracle_case.case)
    item, content = ITEM_BYTES[dtype], run.after(arg, copy)[0]
    total = len(content) // item
    count = min(total, most or total)
    start = run.seed.of("piece", arg.name).random().randrange(total - count + 1)
    part = slice(start, start + count)
    got = as_float(content[start * item : (start + count) * item], dtype)
    expected, ran = np.asarray(run.oracle_case.expected(arg)[part]), np.arange(start, start + count)
    if coded(arg):
        got, expected = _meaning(task, arg, run, copy, got, ran), to_code(expected, dtype)
    covered = run.coverage(arg)
    if covered is None:
        return got, expected, ran
    kept = np.flatnonzero(covered.reshape(-1, item)[part].any(axis=1))
    return got[kept], expected[kept], ran[kept]


def coded(arg: Arg) -> bool:
    return arg.judged is not None and arg.judged.by == "quantized"


def _meaning(task: Task, arg: Arg, run: CaseRun, copy: int, codes: Array, flat: Array) -> Array:
    """Codes times the scales that the kernel wrote; times the expected ones where it wrote none, as
    in a sample of blocks."""
    case, judged = run.oracle_case.case, arg.judged
    if judged is None or judged.scale is None:
        return codes
    scale = next(other for other in task.args if other.name == judged.scale)
    if not scale.written:
        return codes
    wanted = np.asarray(run.oracle_case.expected(scale))
    scales = as_float(run.after(scale, copy)[0], scale.dtype_of(case))
    covered = run.coverage(scale)
    if covered is not None:
        item = ITEM_BYTES[scale.dtype_of(case)]
        scales = np.where(covered.reshape(-1, item).any(axis=1), scales, wanted)
    group = tuple(evaluate(extent, arg.names_in(case)) for extent in judged.group)
    places = group_places(flat, arg.shape_of(case), group)
    return dequantized(codes, scales[places], wanted[places])
