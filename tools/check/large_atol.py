"""Tolerances whose atol is large beside the results, so that it hides errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.task.folder import Task

LARGE = 0.01
"""Share of a usual result from which on atol counts as large, unless rtol allows as much."""
ALONE = "this tolerance alone would accept zeros; only the limit on the rms error rejects them"


def large_atol(task: Task, oracle_cases: Sequence[OracleCase]) -> list[str]:
    """A line for each output and dtype whose atol is large beside the median result of the case of
    ordinary values where that is smallest."""
    smallest: dict[tuple[str, str], tuple[float, OracleCase]] = {}
    for name, dtype, median, oracle_case in _medians(task, oracle_cases):
        known = smallest.get((name, dtype))
        if known is None or median < known[0]:
            smallest[name, dtype] = median, oracle_case
    args = {arg.name: arg for arg in task.args}
    lines = []
    for (name, dtype), (median, oracle_case) in smallest.items():
        tolerance = task.tolerance_of(args[name], oracle_case.case)
        share = tolerance.atol / median
        if share > max(LARGE, 2 * tolerance.rtol):
            size = f"{share:.2g} times" if share >= 1 else f"{share:.0%} of"
            passes = f"; {ALONE}" if share >= 1 else ""
            lines.append(
                f"tolerance of {name}, {dtype}: atol {tolerance.atol:g} is {size} the median result"
                f" {median:.2g} on {oracle_case.case.named}{passes}; use"
                f" {LARGE * median:.0e} or less"
            )
    return lines


def _medians(
    task: Task, oracle_cases: Sequence[OracleCase]
) -> Iterator[tuple[str, str, float, OracleCase]]:
    """Yields output, dtype and median magnitude of its results, those that are 0 aside."""
    for oracle_case in oracle_cases:
        case = oracle_case.case
        if case.values != "normal" or case.families:
            continue
        for arg in task.args:
            if arg.written and arg.bytes_of(case) and arg.judged_by(case) == "close":
                expected = np.abs(oracle_case.expected(arg))
                results = expected[np.isfinite(expected) & (expected > 0)]
                if len(results):
                    yield arg.name, arg.dtype_of(case), float(np.median(results)), oracle_case
