"""The numbers of a run whose precision is measured: floats, and what codes mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from astra_chat.tools.check.floats import Array, as_float
from astra_chat.tools.check.kinds import LEAST_NORMAL, group_places, scale_ratios, to_code
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.task.contract import MEASURED
from astra_chat.tools.task.expressions import evaluate
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import ITEM_BYTES, Case

PART = 2**18
"""Elements of a timed result that are looked at: as many tell its errors, and take no time."""


class MeasuredPiece(NamedTuple):
    """Results of a written argument on a case, or a piece of them, beside what is expected."""

    arg: Arg
    case: Case
    got: Array
    """Results, float64; of codes what they mean: the code times `ratio`."""
    expected: Array
    """What is expected, as `got` is given: float64; of codes what they mean, in units of the
    expected code."""
    ran: Array
    """Flat positions of these elements; a block wrote each of them."""
    oracle_case: OracleCase
    codes: Array | None = None
    """The codes themselves, float64; None where the argument is not quantized."""
    ratio: Array | None = None
    """Scale that the kernel wrote over the expected one, for each code; None where the argument is
    not quantized."""


def measured_args(task: Task, run: CaseRun) -> list[Arg]:
    """Written arguments whose errors mean something: not those that are exact, right in other ways
    or absent, nor any where only a canonical form of the outputs can be compared."""
    if run.oracle_case.has_canonical:
        return []
    case = run.oracle_case.case
    written = [arg for arg in task.args if arg.written and arg.present(case)]
    return [arg for arg in written if arg.judged_by(case) in MEASURED]


def pieces(task: Task, run: CaseRun) -> list[MeasuredPiece]:
    """A piece of every such argument, drawn at random like the copy that it is of."""
    copy = run.seed.of("copy").random().randrange(run.copies)
    return [piece(task, arg, run, copy, PART) for arg in measured_args(task, run)]


def piece(
    task: Task, arg: Arg, run: CaseRun, copy: int = 0, most: int | None = None
) -> MeasuredPiece:
    """Results where a block ran, less codes whose scale the oracle flushes; `most` of them in a
    row, from anywhere."""
    oracle_case, case = run.oracle_case, run.oracle_case.case
    dtype = arg.dtype_of(case)
    item, content = ITEM_BYTES[dtype], run.after(arg, copy)[0]
    total = len(content) // item
    count = min(total, most or total)
    left = total - count
    start = run.seed.of("piece", arg.name).random().randrange(left + 1) if left else 0
    part = slice(start, start + count)
    got = as_float(content[start * item : (start + count) * item], dtype)
    codes, ratio = None, None
    expected, ran = np.asarray(oracle_case.expected(arg)[part]), np.arange(start, start + count)
    counts = np.ones(count, dtype=bool)
    if coded(arg):
        ratio = np.ones(count)
        if scales := group_scales(task, arg, run, lambda scale: run.after(scale, copy)[0]):
            places = scale_places(arg, case, ran)
            ratio, counts = scales.ratios[places], ~scales.flushed[places]
        codes, got = got, np.where(ratio == 0, 0.0, got * ratio)
        expected = to_code(expected, dtype)
    covered = run.coverage(arg)
    if covered is not None:
        counts &= covered.reshape(-1, item)[part].any(axis=1)
    if counts.all():
        return MeasuredPiece(arg, case, got, expected, ran, oracle_case, codes, ratio)
    kept = np.flatnonzero(counts)
    return MeasuredPiece(
        arg,
        case,
        got[kept],
        expected[kept],
        ran[kept],
        oracle_case,
        None if codes is None else codes[kept],
        None if ratio is None else ratio[kept],
    )


def coded(arg: Arg) -> bool:
    return arg.judged is not None and arg.judged.by == "quantized"


class GroupScales(NamedTuple):
    """Scales of the groups of an argument of codes, in row-major order of the groups, float64."""

    got: Array
    """What the kernel wrote; what is expected where no block wrote any."""
    expected: Array

    @property
    def ratios(self) -> Array:
        """What a code means, in units of the expected code, over the code."""
        return scale_ratios(self.got, self.expected)

    @property
    def flushed(self) -> Array:
        """Which scales arithmetic that flushes small numbers takes for zero, as the oracle does,
        and the kernel does not: below 2^-126 a code means less than 2^-117, whatever it is."""
        return np.asarray((self.expected == 0) & (self.got > 0) & (self.got < LEAST_NORMAL))


def group_scales(
    task: Task, arg: Arg, run: CaseRun, content: Callable[[Arg], Array | None]
) -> GroupScales | None:
    """The scales of an argument of codes; None where the kernel writes none. `content` gives the
    bytes of the argument that holds them."""
    name = arg.judged.scale if arg.judged else None
    scale = next((other for other in task.args if other.name == name and other.written), None)
    written = content(scale) if scale else None
    if scale is None or written is None:
        return None
    dtype = scale.dtype_of(run.oracle_case.case)
    wanted, scales = np.asarray(run.oracle_case.expected(scale)), as_float(written, dtype)
    covered = run.coverage(scale)
    if covered is not None:
        scales = np.where(covered.reshape(-1, ITEM_BYTES[dtype]).any(axis=1), scales, wanted)
    return GroupScales(scales, wanted)


def scale_places(arg: Arg, case: Case, flat: Array) -> Array:
    """Flat position of the scale of each code."""
    assert arg.judged is not None, "it is quantized"
    group = tuple(evaluate(extent, arg.names_in(case)) for extent in arg.judged.group)
    return group_places(flat, arg.shape_of(case), group)
