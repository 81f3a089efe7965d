"""Coverage and width of the prediction interval on kernels that had no part in its fit."""

from __future__ import annotations

import pytest

from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import EstimatedTime, candidate_id
from astra_vgpu.model.ratio_interval import (
    COVERAGE,
    JUDGED_LAUNCH_US,
    SHARED,
    SPREAD,
    ratio_interval,
)
from lab.virtual_gpu.calibration import intervals
from tests.time_samples import estimated_time


def test_ratios_of_unseen_kernels_lie_inside() -> None:
    """The validation set, and apart from it the three tasks as the judge measured them."""
    validation, own = intervals.validation_pairs(), intervals.against_baseline()
    assert len(validation) == 342 and len(own) == 176
    assert intervals.coverage(validation) >= COVERAGE
    assert intervals.coverage(own) >= COVERAGE
    for pairs in (validation, own):
        means = intervals.means(pairs)
        assert sum(error <= half for error, half in means) / len(means) >= COVERAGE


@pytest.mark.second_tier
def test_of_edits_of_one_kernel_it_is_narrow_and_still_holds() -> None:
    pairs = intervals.edits()
    assert len(pairs) == 270 and intervals.coverage(pairs) >= COVERAGE
    assert intervals.half_width(pairs) <= 0.12
    unlike = intervals.validation_pairs()
    assert intervals.half_width(unlike) > 3 * intervals.half_width(pairs), "it is no constant"


def test_a_set_that_the_fit_leaves_out_is_covered_too() -> None:
    shares = {
        name: sum(pair.score <= spread for pair in pairs) / len(pairs)
        for name, pairs, spread in intervals.left_out()
    }
    assert len(shares) == 6 and sum(share >= COVERAGE for share in shares.values()) >= 5, shares
    assert min(shares.values()) >= 0.85


def test_the_constants_are_those_that_the_fit_finds() -> None:
    sets = intervals.fitting_sets()
    assert pytest.approx(intervals.fitted_spread(sets.values()), abs=0.01) == SPREAD
    assert pytest.approx(intervals.fitted_share(sets.values()), abs=0.03) == SHARED
    points = intervals.tasks.judged_points()
    assert pytest.approx(intervals.fitted_launch_us(points), abs=0.01) == JUDGED_LAUNCH_US


@pytest.mark.second_tier
def test_the_bias_against_measurements_is_gone_on_a_task_left_out_too() -> None:
    points = [point for point in intervals.tasks.judged_points() if not point.start]
    for name in intervals.tasks.RUNS:
        own = [point for point in points if point.task == name]
        apart = intervals.fitted_launch_us([p for p in points if p.task != name])
        assert intervals.time_bias(own, 0.0) < -0.13, "what it was"
        assert abs(intervals.time_bias(own)) < 0.03
        assert abs(intervals.time_bias(own, apart)) < 0.03
        assert abs(intervals.ratio_bias(own, apart)) < 0.04


@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_state_v2"])
def test_scripted_kernels_come_to_what_their_scripts_expect_of_an_estimate(name: str) -> None:
    """Verdicts follow from the counters on file, over the demo cases that are bench cases too."""
    task = find_task(name)
    script, weights = load_script(task), {case.label: weight for case, weight in task.demo}
    cases: dict[str, list[EstimatedTime]] = {}
    for point in intervals.tasks.judged_points():
        if point.task == name and point.case in weights:
            time = _time(point, task, weights[point.case])
            cases.setdefault(point.candidate, []).append(time)
    timed = [k for k in script.kernels() if k.expects.estimated in ("accepted", "tie", "slower")]
    for kernel in timed:
        found = cases[candidate_id(script.sources[kernel.name])]
        assert len(found) >= 4
        assert judge_times(found)[1] == kernel.expects.estimated, kernel.name
    assert len(timed) >= 4


def _time(point: intervals.tasks.JudgedPoint, task: Task, weight: float) -> EstimatedTime:
    candidate, baseline = point.estimates()
    low, ratio, high = ratio_interval(baseline, candidate)
    case = next(case for case, _ in task.demo if case.label == point.case)
    return estimated_time(
        case,
        ratio,
        weight=weight,
        baseline_us=baseline.us,
        median_us=candidate.us,
        ratio_low=low,
        ratio_high=high,
        limit_us=0.5,
        limiter="latency",
    )


@pytest.mark.second_tier
def test_the_document_holds_what_the_command_finds() -> None:
    text = intervals.DOCUMENT.read_text()
    assert f"{intervals.BEGIN}\n{intervals.document()}\n{intervals.END}" in text
