"""A judge whose baseline fails on a part of what its contract allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.judge import Judge
from astra_chat.tools.task_validation import check_task
from astra_chat.tools.types import Case, Correct, Device, Unsupported, Wrong
from astra_vgpu.ground.errors import BadInput
from tests.tools.check.failing_baseline import (
    CRASHING,
    LAUNCHES_LITTLE,
    ONE_WIDTH,
    STAGED,
    TOML,
    failing_task,
)

VIRTUAL = Device(kind="virtual", name="virtual GPU", arch="sm_90", spec="h200")
LONG = Case(dims={"rows": 2, "d": 13_000}, dtype="float32")


@pytest.mark.second_tier
def test_what_the_launcher_cannot_launch_is_left_out_case_by_case(tmp_path: Path) -> None:
    """A kernel that is right for one width is wrong all the same, whatever the baseline fails."""
    task = failing_task(tmp_path, STAGED)
    with Judge(task, VIRTUAL, entropy=Entropy("05")) as judge:
        with pytest.raises(BadInput, match=r"case rows=2 d=13000 float32: the baseline of staged"):
            judge.require_judged([LONG])
        honest, one_width = judge.check(STAGED), judge.check(ONE_WIDTH)
    assert isinstance(one_width.outcome, Wrong)
    correct = honest.outcome
    assert isinstance(correct, Correct), describe(correct)
    assert honest.check is not None and correct.left_out == len(honest.check.left_out) > 0
    assert all("at most 49,152 bytes without" in text for text in honest.check.left_out)
    counted = f"correct on {correct.cases} of {correct.cases + correct.left_out} cases, "
    lost = f"; {correct.left_out} left out: the baseline fails there; not timed"
    assert describe(correct).startswith(counted) and lost in describe(correct)
    assert max(case.dims["d"] for case in honest.check.visible + honest.check.hidden) > 100


@pytest.mark.second_tier
def test_what_crashes_leaves_out_what_is_near_and_no_more(tmp_path: Path) -> None:
    narrow = TOML.replace("max = 16384", "max = 400")
    task = failing_task(tmp_path, CRASHING, narrow)
    with Judge(task, VIRTUAL, entropy=Entropy("06")) as judge:
        evaluation = judge.check(STAGED)
    assert evaluation.check is not None
    assert any("the baseline is unsafe" in text for text in evaluation.check.left_out)
    assert any("not tried: the baseline failed on" in text for text in evaluation.check.left_out)
    assert evaluation.check.drawn >= 12, "the shorter rows are judged"


@pytest.mark.second_tier
def test_on_too_few_cases_nothing_is_correct(tmp_path: Path) -> None:
    task = failing_task(tmp_path, LAUNCHES_LITTLE)
    with Judge(task, VIRTUAL, entropy=Entropy("07")) as judge:
        evaluation = judge.check(STAGED)
    assert isinstance(evaluation.outcome, Unsupported), describe(evaluation.outcome)
    said = describe(evaluation.outcome)
    assert said.startswith("unsupported: the baseline cannot be judged on enough drawn cases: ")
    assert "the launcher returned CUDA error 1 (invalid argument)" in said


@pytest.mark.second_tier
def test_a_baseline_that_cannot_launch_the_greatest_extent_makes_a_task_unfit(
    tmp_path: Path,
) -> None:
    report = check_task(failing_task(tmp_path, STAGED), VIRTUAL, entropy=Entropy("08"))
    assert not report.fit and report.lines()[-1] == "not fit for judging"
    assert {one.case.dims["d"] for one in report.ends.failed} == {16384}
    (line, *_) = [text for text in report.lines() if "rows=1 d=16384 float32: launch 1" in text]
    assert "65,536 bytes of dynamic shared memory: at most 49,152 bytes without" in line
