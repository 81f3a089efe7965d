"""What sets a winner beside other kernels, by figures made up to be easy to follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Correct, EstimatedTime, MeasuredTime, Profile, Timed
from astra_vgpu.ground.errors import BadInput
from lab.baselines.evidence import Comparison, Kernel
from lab.estimates import Estimate, Estimates
from lab.paper_method import read as read_method
from lab.result_tables import (
    PUBLISHED_SCHEMA,
    geomean,
    large_cases,
    means_over_paper,
    of_streaming,
    orders,
    paper_method,
    read_published,
    spearman,
    todays,
)
from tests.recorded_files import EXAMPLES
from tests.time_samples import estimated_time, measured_time

H200 = EXAMPLES / "h200"
TASK = find_task("silu_and_mul")
SMALL = Case(dims={"tokens": 1, "d": 14336}, dtype="bfloat16")
LARGE = Case(dims={"tokens": 8192, "d": 14336}, dtype="bfloat16")


def case_time(case: Case, ratio: float) -> MeasuredTime:
    return measured_time(
        case,
        ratio,
        baseline_us=ratio,
        median_us=1,
        percent_of_limit=100,
        baseline_event_us=1,
        event_us=1,
        sm_clock_mhz=1,
    )


def comparison(first: str, tier: str, *cases: MeasuredTime, moved: int = 0) -> Comparison:
    return Comparison(
        task=TASK.name,
        first=Kernel(name=first, tier=tier, what="", content=""),
        second=Kernel(name="best", tier="best", what="", content=""),
        cases=cases,
        first_bytes=tuple(moved or TASK.least_bytes(c.case) for c in cases),
    )


def test_of_todays_kernels_the_run_time_one_comes_first() -> None:
    library = comparison("library", "today", case_time(SMALL, 1.5), case_time(LARGE, 1.2))
    jit = comparison("jit", "today", case_time(SMALL, 1.1))
    old = comparison("library", "sglang", case_time(LARGE, 9.0))
    found = todays([library, jit, old])
    assert found[SMALL.label].ratio == 1.1 and found[LARGE.label].ratio == 1.2


def test_the_fastest_streaming_kernel_is_the_ceiling() -> None:
    slow, fast = (
        comparison(name, "streaming", case_time(LARGE, r))
        for name, r in (("streaming 1", 1.05), ("streaming 2", 0.96))
    )
    assert of_streaming(TASK.name, [slow, fast])[LARGE.label] == pytest.approx(96)
    half = comparison("s", "streaming", case_time(LARGE, 0.5), moved=TASK.least_bytes(LARGE) // 2)
    assert of_streaming(TASK.name, [half])[LARGE.label] == pytest.approx(100)


def test_large_is_what_the_l2_does_not_hold() -> None:
    cases = [case_time(SMALL, 1), case_time(LARGE, 1)]
    assert [c.case for c in large_cases(TASK.name, cases, "h200")] == [LARGE]


def estimated(case: Case, ratio: float) -> EstimatedTime:
    return estimated_time(
        case, ratio, baseline_us=ratio, median_us=1, percent_of_limit=100, limiter="dram"
    )


def test_inverted_pairs_are_named() -> None:
    profile = Profile(
        basis="measured",
        case=SMALL,
        metrics=(),
        bottleneck="dram",
        why="",
        limit_us=1,
        percent_of_limit=1,
    )
    correct = Correct(cases=1, worst=0)
    measured = {
        name: Timed(
            correct=correct,
            cases=(case_time(SMALL, r), case_time(LARGE, 50)),
            ratio=r,
            verdict="tie",
            why="",
            profile=profile,
        )
        for name, r in (("a", 1.1), ("b", 1.2), ("c", 1.3))
    }
    guesses = Estimates(
        device=virtual_device("h200"),
        estimates=tuple(
            Estimate(task=TASK.name, file=f"{n}.cu", candidate=n, cases=(estimated(SMALL, r),))
            for n, r in (("a", 1.1), ("b", 1.5), ("c", 1.4), ("unmeasured", 9.0))
        ),
    )
    text = "\n".join(orders(TASK.name, guesses, measured))
    assert "1 of 3 pairs in the wrong order: b.cu and c.cu" in text
    assert "| a.cu | 1.100 | 1.100 |" in text and "unmeasured" not in text
    assert "(Spearman) 0.50" in text


def test_ranks() -> None:
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2], [1, 1, 2]) == pytest.approx(1)
    assert spearman([1, 1, 1], [1, 2, 3]) == 0
    assert geomean([2, 8]) == pytest.approx(4)
    assert geomean([2, 8], [3, 1]) == pytest.approx(8**0.5)


def test_recorded_figures_reach_the_issues_marks() -> None:
    """The paper's twelve cases: three times its start by its method, ahead of every winner."""
    method = read_method(H200 / "paper-method.json")
    published = read_published(H200 / "paper-published.json")
    by_event, cold = means_over_paper(method)
    assert by_event >= 3 and cold >= 5
    best = {(t.task, tuple(t.case.dims.values())): t for t in method.times if t.kernel == "best"}
    assert len(published.rows) == len(best) == 12
    for row in published.rows:
        ours = best[row.task, row.shape]
        assert ours.cold_us < row.winner_cold_us and ours.mean_us < row.winner_event_us
        text = "\n".join(paper_method(row.task, method, published))
        assert f"| {row.winner_cold_us:.2f} |" in text


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("", "[]", json.dumps({"schema": "x"}), json.dumps({"schema": PUBLISHED_SCHEMA})):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"a\.json"):
            read_published(path)
