"""Trivial outputs (zeros, a constant, an unchanged input) must fail on a task's own cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from astra_chat.tools.check.compare import compare_values
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.floats import OVERFLOW, Array, as_float, rounded, ulp
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, DTypeName, Wrong

MUCH = 1.05
"""A result that is 5 % off has to fail as well: the tolerance is for rounding."""


@dataclass(frozen=True)
class Trial:
    """One made-up output on one case."""

    case: Case
    argument: str
    output: str
    """What was put there, as text."""
    right: bool
    """It equals the expected output to within an ulp everywhere: it may pass."""
    passed: bool


def trials(
    task: Task, oracle_cases: Sequence[OracleCase], baseline_errors: BaselineErrors
) -> list[Trial]:
    """Every trivial output of every written argument on every case; the others taken as right."""
    trials: list[Trial] = []
    for oracle_case in oracle_cases:
        for arg in task.args:
            if arg.written:
                trials += _of_argument(task, oracle_case, arg, baseline_errors)
    return trials


def undetected(trials: Sequence[Trial]) -> list[str]:
    """Where a trivial output passes all cases of a family and dtype though it is wrong on some."""
    groups: dict[tuple[str, ...], list[Trial]] = {}
    for trial in trials:
        kind = (trial.argument, trial.output, trial.case.dtype, trial.case.values)
        groups.setdefault(kind, []).append(trial)
    return [
        f"{argument}: {output} passes all {dtype} cases of '{family}' values"
        for (argument, output, dtype, family), group in groups.items()
        if all(t.passed for t in group) and not all(t.right for t in group)
    ]


def _of_argument(
    task: Task, oracle_case: OracleCase, arg: Arg, baseline_errors: BaselineErrors
) -> Iterator[Trial]:
    case, dtype = oracle_case.case, arg.dtype_of(oracle_case.case)
    expected = np.asarray(oracle_case.expected(arg))
    everywhere = np.arange(len(expected))
    for words, values in _outputs(task, oracle_case, arg, expected):
        got = rounded(values, dtype)
        compared = compare_values(got, expected, task.tolerance[dtype], dtype)
        passed = bool(compared.good.all())
        if passed and baseline_errors.knows(case):
            verdict = baseline_errors.judge_values(arg, case, got, expected, everywhere)
            passed = not isinstance(verdict, Wrong)
        right = _within_an_ulp(got, expected, dtype)
        yield Trial(case, arg.name, words, right, passed)


def _within_an_ulp(got: Array, expected: Array, dtype: DTypeName) -> bool:
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected) <= ulp(expected, dtype)
    same = (got == rounded(expected, dtype)) | (np.isnan(got) & np.isnan(expected))
    return bool((near | same).all())


def _outputs(
    task: Task, oracle_case: OracleCase, arg: Arg, expected: Array
) -> Iterator[tuple[str, Array]]:
    finite = expected[np.isfinite(expected) & (np.abs(expected) < OVERFLOW["float16"])]
    yield "all zeros", np.zeros(len(expected))
    yield "a constant, the mean", np.full(len(expected), finite.mean() if len(finite) else 1.0)
    with np.errstate(over="ignore"):
        yield "the expected output times 1.05", expected * MUCH
    for given in task.args:
        if given.read:
            values = _passed_through(given, oracle_case, arg.shape_of(oracle_case.case))
            if values is not None:
                yield f"'{given.name}' passed through", values


def _passed_through(given: Arg, oracle_case: OracleCase, shape: tuple[int, ...]) -> Array | None:
    """The front of each row of an input, where its rows are as many and as long at least."""
    case = oracle_case.case
    source = given.shape_of(case)
    if source[:-1] != shape[:-1] or source[-1] < shape[-1]:
        return None
    content = np.fromfile(oracle_case.input_path(given), dtype=np.uint8)
    rows = as_float(content, given.dtype_of(case)).reshape(-1, source[-1])
    front: Array = rows[:, : shape[-1]].reshape(-1)
    return front
