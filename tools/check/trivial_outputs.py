"""Trivial outputs (zeros, a constant, a copy of an input, an identity permutation) must fail on a
task's own cases, whatever the judgement kind."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from astra_chat.tools.check.compare import compare_outputs
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.floats import (
    Array,
    as_bytes,
    as_float,
    as_int,
    rounded,
    ulp,
)
from astra_chat.tools.check.kinds import biased, honest, to_code, vocabulary
from astra_chat.tools.check.lost_cases import Failed
from astra_chat.tools.check.measured_values import MeasuredPiece, coded
from astra_chat.tools.dtypes import UNSIGNED_POWERS
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.task.contract import MEASURED
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, Wrong, is_float
from astra_vgpu.ground.errors import BadInput

MUCH = 1.05
"""A result that is 5 % off has to fail as well: the tolerance is for rounding. A power of two, one
that is twice as large."""
RIGHT_ULPS = 2
"""So near it is right. Where nearly all results are below the smallest number of their dtype, one
draw in a hundred has a product that is more than one such number from zero."""
HALF = 2.0**16
"""Larger numbers say nothing of what is usual."""


@dataclass(frozen=True)
class Trial:
    """One made-up output on one case."""

    case: Case
    argument: str
    output: str
    """What was put there, as text."""
    right: bool
    """It equals the expected output to within RIGHT_ULPS, or is as legal: it may pass."""
    passed: bool


def trials(
    task: Task, oracle_cases: Sequence[OracleCase], baseline_errors: BaselineErrors
) -> list[Trial]:
    """Every trivial output of every written argument on every case; the others taken as right."""
    trials: list[Trial] = []
    for oracle_case in oracle_cases:
        for arg in task.args:
            if arg.written and arg.bytes_of(oracle_case.case):
                trials += _Trials(task, oracle_case, arg, baseline_errors).made()
    return trials


def undetected(trials: Sequence[Trial]) -> list[str]:
    """Where a trivial output passes all cases of a family and dtype though it is wrong on some, or
    passes all cases there are. A case that it does not fit, such as an input of another shape,
    tells it apart."""
    groups: dict[tuple[str, ...], list[Trial]] = {}
    always: dict[tuple[str, str], list[Trial]] = {}
    cases: dict[str, set[str]] = {}
    for trial in trials:
        cases.setdefault(trial.argument, set()).add(trial.case.key)
        kind = (trial.argument, trial.output, trial.case.dtype, trial.case.values)
        groups.setdefault(kind, []).append(trial)
        always.setdefault((trial.argument, trial.output), []).append(trial)
    return [
        f"{argument}: {output} passes all {dtype} cases of '{family}' values"
        for (argument, output, dtype, family), group in groups.items()
        if all(t.passed for t in group) and not all(t.right for t in group)
    ] + [
        f"{argument}: {output} is correct on all cases: add a check case on which it is wrong"
        for (argument, output), group in always.items()
        if all(t.passed and t.right for t in group) and len(group) >= len(cases[argument])
    ]


def require_telling(
    task: Task,
    oracle_cases: Sequence[OracleCase],
    baseline_errors: BaselineErrors,
    failed: Sequence[Failed],
) -> None:
    """Raises BadInput where cases that the baseline passes let a trivial output pass. `failed`: the
    task's own cases that it fails; the fault may be there."""
    weak = undetected(trials(task, oracle_cases, baseline_errors))
    if not weak:
        return
    if failed:
        raise BadInput(
            f"{task.folder}: the baseline fails {len(failed)} of {len(task.check)} check cases, the"
            f" first {failed[0]}; the others accept a trivial output: {weak[0]}; for details, run"
            " astra-chat tasks check"
        )
    raise BadInput(
        f"{task.folder / 'task.toml'}: the check cases of {task.name} accept a trivial"
        f" output: {weak[0]}; tighten the tolerance or change the cases"
    )


@dataclass(frozen=True)
class _Trials:
    """Trivial outputs of one argument on one case."""

    task: Task
    oracle_case: OracleCase
    arg: Arg
    baseline_errors: BaselineErrors

    @property
    def case(self) -> Case:
        return self.oracle_case.case

    def made(self) -> Iterator[Trial]:
        dtype, expected = self.arg.dtype_of(self.case), self._expected(self.arg)
        draws = self.arg.judged_by(self.case) == "distribution"
        outputs = self._draws(expected) if draws else self._outputs(expected)
        others = self._others()
        for words, values in outputs:
            content = as_bytes(values, dtype)
            run = CaseRun(self.oracle_case, Path("no file"), CaseReport(), pattern=0)
            verdict = compare_outputs(self.task, run, {**others, self.arg.name: content})
            passed = not isinstance(verdict, Wrong) and self._precise(content, expected)
            yield Trial(
                self.case, self.arg.name, words, self._right(content, expected, passed), passed
            )

    def _others(self) -> dict[str, Array]:
        """The other outputs as expected, where reference.py is asked about all of them."""
        case = self.case
        written = [arg for arg in self.task.args if arg.written]
        if not self.oracle_case.has_canonical and all(
            a.judged_by(case) != "accept" for a in written
        ):
            return {}
        return {arg.name: as_bytes(self._expected(arg), arg.dtype_of(case)) for arg in written}

    def _expected(self, arg: Arg) -> Array:
        return np.asarray(self.oracle_case.expected(arg))

    def _precise(self, content: Array, expected: Array) -> bool:
        """Whether it is as precise as the baseline, where that is measured."""
        arg, case = self.arg, self.case
        if self.oracle_case.has_canonical or not self.baseline_errors.knows(case):
            return True
        if arg.judged_by(case) not in MEASURED:
            return True
        got, places = as_float(content, arg.dtype_of(case)), np.arange(len(expected))
        one = MeasuredPiece(arg, case, got, expected, places, self.oracle_case)
        if coded(arg):
            expected = to_code(expected, arg.dtype_of(case))
            one = one._replace(expected=expected, codes=got, ratio=np.ones(len(got)))
        return not isinstance(self.baseline_errors.judge_piece(one), Wrong)

    def _right(self, content: Array, expected: Array, passed: bool) -> bool:
        """What reference.py accepts is right; of draws only what cannot be otherwise."""
        arg, case = self.arg, self.case
        dtype, kind = arg.dtype_of(case), arg.judged_by(case)
        if kind == "accept":
            return passed
        if kind == "distribution":
            return bool((expected.reshape(-1, self._symbols()).max(axis=1) >= 1).all())
        if kind == "exact" or self.oracle_case.has_canonical:
            return passed
        got = as_float(content, dtype)
        if kind == "quantized":
            return bool((got == rounded(expected, dtype)).all())
        with np.errstate(invalid="ignore"):
            near = np.abs(got - expected) <= RIGHT_ULPS * ulp(expected, dtype)
        same = (got == rounded(expected, dtype)) | (np.isnan(got) & np.isnan(expected))
        return bool((near | same).all())

    def _outputs(self, expected: Array) -> Iterator[tuple[str, Array]]:
        """Yields trivial outputs with their names. Of a single element the mean is left out: it
        would be the result itself."""
        yield "all zeros", np.zeros_like(expected)
        if expected.dtype.kind == "f":
            usual = expected[np.isfinite(expected) & (np.abs(expected) < HALF)]
            if len(expected) > 1:
                yield (
                    "the mean everywhere",
                    np.full(len(expected), usual.mean() if len(usual) else 1.0),
                )
            with np.errstate(over="ignore"):
                much = 2.0 if self.arg.dtype_of(self.case) == UNSIGNED_POWERS else MUCH
                yield f"the expected output multiplied by {much:g}", expected * much
        else:
            yield from self._of_integers(expected)
        for given in self.task.args:
            if given.read:
                values = self._passed_through(given)
                if values is not None:
                    yield f"'{given.name}' passed through", values

    def _of_integers(self, expected: Array) -> Iterator[tuple[str, Array]]:
        if len(expected) == 1:
            return
        values, counts = np.unique(expected, return_counts=True)
        yield "the most frequent value everywhere", np.full(len(expected), values[counts.argmax()])
        if self.arg.dtype_of(self.case) == "bool":
            return
        yield "the element's own index, 0, 1, 2, ...", np.arange(len(expected))
        columns = self.arg.shape_of(self.case)[-1]
        if 1 < columns < len(expected):
            yield "0, 1, 2, ... in each row", np.arange(len(expected)) % columns

    def _draws(self, probabilities: Array) -> Iterator[tuple[str, Array]]:
        symbols, count = self._symbols(), int(np.prod(self.arg.shape_of(self.case)))
        table = probabilities.reshape(-1, symbols)
        each, rng = count // len(table), np.random.default_rng(random.Random(count).getrandbits(32))
        yield "always the first symbol", np.zeros(count, np.int64)
        yield "always the likeliest", np.repeat(table.argmax(axis=1), each)
        if table.max() > MUCH * table.min():
            yield "all symbols equally often", rng.integers(symbols, size=count)
        right = honest(probabilities, symbols, count, rng)
        yield "2 % of the draws moved to other symbols", biased(right, probabilities, symbols, rng)

    def _symbols(self) -> int:
        return vocabulary(self.task, self.arg, self.case)

    def _passed_through(self, given: Arg) -> Array | None:
        """The front of each row of an input, where its rows are as many and as long at least; of
        integers where integers are expected, of floats where floats are."""
        case = self.case
        shape, source, dtype = self.arg.shape_of(case), given.shape_of(case), given.dtype_of(case)
        if is_float(dtype) != is_float(self.arg.dtype_of(case)):
            return None
        if source[:-1] != shape[:-1] or source[-1] < shape[-1]:
            return None
        content = np.fromfile(self.oracle_case.input_path(given), dtype=np.uint8)
        number = as_float if is_float(dtype) else as_int
        front: Array = number(content, dtype).reshape(-1, source[-1])[:, : shape[-1]].reshape(-1)
        return front
