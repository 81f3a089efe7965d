"""Outputs that cost nothing fail on shipped tasks, and a task that lets them pass is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from astra_chat.tools.check import trivial_outputs
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.lost_cases import Failed
from astra_chat.tools.check.trivial_outputs import Trial, require_telling, trials, undetected
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, Tolerance, find_task, task_names
from astra_chat.tools.types import Case, Crashed
from astra_vgpu.ground.errors import BadInput

WITH_TOLERANCE = [
    name
    for name in task_names()
    for task in [find_task(name)]
    if any(a.written and a.judged_by(task.check[0]) == "close" for a in task.args)
]
"""Others are judged exactly: no tolerance of theirs is loose."""


@pytest.fixture(params=WITH_TOLERANCE)
def task(request: pytest.FixtureRequest) -> Task:
    return find_task(request.param)


@pytest.fixture
def oracle_cases(task: Task) -> Iterator[list[OracleCase]]:
    oracle = Oracle(task)
    small = [c for c in task.check if task.least_bytes(c) < 2**17]
    yield oracle.oracle_cases(small, Stop())
    oracle.close()


def found(task: Task, oracle_cases: list[OracleCase]) -> list[Trial]:
    """Without a baseline: by the tolerance alone."""
    return trials(task, oracle_cases, BaselineErrors(task))


@pytest.mark.second_tier
def test_usual_values_tell_work_from_no_work(task: Task, oracle_cases: list[OracleCase]) -> None:
    usual = [t for t in found(task, oracle_cases) if t.case.values in ("normal", "large")]
    assert {t.output for t in usual} >= {
        "all zeros",
        "the mean everywhere",
        "the expected output multiplied by 1.05",
    }
    assert {t.argument for t in usual} == {a.name for a in task.args if a.written}
    # Codes a step beside are judged by place, beside the baseline's (test_bands.py).
    codes = {arg.name for arg in task.args if arg.judged and arg.judged.by == "quantized"}
    usual = [t for t in usual if t.argument not in codes or "1.05" not in t.output]
    assert undetected(usual) == []


@pytest.mark.second_tier
def test_a_loose_tolerance_is_found(task: Task, oracle_cases: list[OracleCase]) -> None:
    wide = Tolerance(rtol=0.1, atol=100.0)
    args = tuple(
        arg.model_copy(update={"tolerance": wide}) if arg.tolerance else arg for arg in task.args
    )
    loose = {"tolerance": dict.fromkeys(task.tolerance, wide), "args": args}
    weak = undetected(found(task.model_copy(update=loose), oracle_cases))
    assert any("all zeros" in words for words in weak)
    assert any("the expected output multiplied by 1.05" in words for words in weak)


def trial(right: bool, passed: bool, dtype: str = "float16") -> Trial:
    case = Case(dims={"n": 1}, dtype=dtype)  # type: ignore[arg-type]
    return Trial(case, "out", "all zeros", right, passed)


def test_what_is_right_may_pass_and_one_case_is_enough() -> None:
    assert undetected([trial(right=True, passed=True), trial(False, False)]) == []
    assert undetected([trial(right=True, passed=True)]) == [
        "out: all zeros is correct on all cases: add a check case on which it is wrong"
    ]
    assert undetected([trial(False, True), trial(False, False)]) == []
    assert undetected([trial(False, False), trial(False, True, "float32")]) == [
        "out: all zeros passes all float32 cases of 'normal' values"
    ]


@pytest.mark.second_tier
def test_zeros_are_right_where_one_product_is_just_above_the_smallest_number() -> None:
    """One seed in a hundred of silu_and_mul's tiny float16 case has such an element."""
    task = find_task("silu_and_mul")
    kinds = {case.values: case for case in task.check if case.dtype == "float16"}
    tiny = kinds["tiny"].model_copy(update={"seed": 293})
    oracle = Oracle(task)
    made = found(task, oracle.oracle_cases([tiny, kinds["normal"]], Stop()))
    oracle.close()
    zeros = {t.case.values: t for t in made if t.output == "all zeros"}
    assert zeros["tiny"].passed and zeros["tiny"].right and not zeros["normal"].passed
    assert not any("all zeros" in words for words in undetected(made))


def test_cases_that_the_baseline_fails_are_blamed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few cases are left then, and zeros may be right on them."""
    task = find_task("silu_and_mul")
    case, errors = task.check[0], BaselineErrors(task)
    passed = Trial(case, "out", "all zeros", right=True, passed=True)
    monkeypatch.setattr(trivial_outputs, "trials", lambda *_: [passed])
    with pytest.raises(
        BadInput, match=r"task\.toml: the check cases .*: out: all zeros is correct"
    ):
        require_telling(task, [], errors, [])
    failed = [Failed(case, Crashed(case=case, message="it ended"))]
    with pytest.raises(
        BadInput, match=r"fails 1 of .*: the baseline crashed: it ended; the others"
    ):
        require_telling(task, [], errors, failed)


def test_a_case_that_an_output_does_not_fit_tells_it_apart() -> None:
    """An input has the shape of the result on one of two cases, where to pass it on is right."""
    one, more = (Case(dims={"n": n}, dtype="float16") for n in (1, 3))
    fits = Trial(one, "cache", "'key' passed through", right=True, passed=True)
    zeros = [Trial(case, "cache", "all zeros", False, False) for case in (one, more)]
    assert undetected([fits, *zeros]) == []
    (words,) = undetected([fits, zeros[0]])
    assert "'key' passed through is correct on all cases: add a check case" in words
