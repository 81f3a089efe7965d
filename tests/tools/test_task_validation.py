"""Shipped tasks are fit for judging; one with a broken baseline or a loose tolerance is not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.task.folder import BUILTIN, Task, Tolerance, find_task, load_task, task_names
from astra_chat.tools.task_validation import TaskReport, check_task
from astra_chat.tools.types import Device
from tests.tools.kept_places import CANONICAL, SORTS, keep

ROW_SUM = Path(__file__).parents[1] / "attacks" / "tasks" / "row_sum"


def small(task: Task) -> Task:
    """The cases that cost little: every dtype and family is still among them."""
    return task.model_copy(
        update={"check": tuple(c for c in task.check if task.least_bytes(c) < 2**17)}
    )


@pytest.mark.parametrize("name", task_names())
@pytest.mark.sampled(2)
@pytest.mark.second_tier
def test_a_shipped_task_is_fit(name: str, device: Device) -> None:
    task = small(find_task(name))
    report = check_task(task, device)
    assert report.fit, report.lines()
    assert report.cases == len(task.check) and report.hidden >= 5 * len(task.dtypes)
    assert report.lines()[-1] == "fit for judging"
    wrongly = [t for t in report.trials if t.passed and not t.right]
    assert not wrongly, "every trivial output fails on every case on which it is wrong"


@pytest.mark.second_tier
def test_a_loose_tolerance_shows(device: Device) -> None:
    """Results are of float32 and their terms are not stated: all others are judged by place,
    too."""
    task = small(load_task(ROW_SUM))
    loose = {name: Tolerance(rtol=1.0, atol=1e3) for name in task.tolerance}
    report = check_task(task.model_copy(update={"tolerance": loose, "oracle_ratio": 1e9}), device)
    assert not report.fit and not report.failed
    told_apart = "not distinguishable from real work: out: all zeros"
    assert any(told_apart in line for line in report.lines())


@pytest.mark.second_tier
def test_a_wrong_baseline_shows(tmp_path: Path, device: Device) -> None:
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "silu_and_mul", folder)
    source = (folder / "baseline.cu").read_text()
    assert "1.0f + expf" in source
    (folder / "baseline.cu").write_text(source.replace("1.0f + expf", "1.01f + expf"))
    report = check_task(small(load_task(folder)), device)
    assert not report.fit and any(
        "the baseline and the reference disagree, first at out[" in words for words in report.failed
    )


@pytest.mark.second_tier
def test_a_scalar_that_the_reference_ignores_makes_the_task_unfit(
    tmp_path: Path, device: Device
) -> None:
    folder = tmp_path / "task"
    shutil.copytree(BUILTIN / "fused_add_rmsnorm", folder)
    text = (folder / "reference.py").read_text()
    assert 'inputs["eps"]' in text
    (folder / "reference.py").write_text(text.replace('inputs["eps"]', "1e-6"))
    report = check_task(small(load_task(folder)), device)
    assert not report.failed and report.hidden_failed and not report.fit
    assert any("correct with eps = 1e-06 instead of" in line for line in report.hidden_failed)
    assert report.lines()[-1] == "not fit for judging"


def test_cases_that_were_not_tried_are_not_counted_as_wrong() -> None:
    report = TaskReport(
        cases=3,
        failed=(),
        not_tried=0,
        hidden=21,
        hidden_not_tried=17,
        hidden_failed=("one", "two", "three"),
        left_out=("four",),
        trials=(),
        undetected=(),
        seed="00",
    )
    words = "baseline: correct on 3 of 3 check cases and 0 of 4 drawn ones (17 more not tried)"
    assert report.lines()[0] == words and not report.fit
    assert not replace(report, hidden_failed=(), left_out=()).fit, "nobody knows"


@pytest.mark.second_tier
def test_a_reference_that_knows_one_of_several_results_is_told_before_the_cases(
    tmp_path: Path, device: Device
) -> None:
    """The places behind the last kept one are not written, and nothing says so."""
    report = check_task(keep(tmp_path, ""), device)
    assert not report.fit and report.cases == 2
    first, hint, counts, *_ = report.lines()
    assert first.startswith("baseline.cu does not compute what reference.py defines: wrong on n=")
    assert "never written: places[" in first and "canonical()" in hint
    assert counts.startswith("baseline: correct on 0 of 2 check cases and")


@pytest.mark.second_tier
def test_a_canonical_form_that_knows_one_order_of_atomics_is_told(
    tmp_path: Path, device: Device
) -> None:
    assert SORTS in CANONICAL
    report = check_task(keep(tmp_path, CANONICAL.replace(SORTS, "")), device)
    first, hint, counts, *_ = report.lines()
    assert not report.fit and "canonical()" in hint and ": places[" in first
    if device.kind == "cuda" and report.failed:  # its atomics came in another order by themselves
        assert "reference.py says: wrong on n=" in first and "in canonical form" in first
        return
    assert "order of atomics" in first and "is: wrong on n=40 " in first
    assert counts.startswith("baseline: correct on 2 of 2 check cases and")
