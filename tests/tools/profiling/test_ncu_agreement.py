"""The rule by which a judged time is doubted, on figures of an H200 and on invented ones."""

from __future__ import annotations

import math

import pytest

from astra_chat.tools.profiling.ncu_agreement import MIN_SHARE, agreement, compared, doubt, in_short
from astra_chat.tools.types import Case, MeasuredTime
from tests.time_samples import measured_time

CASE = Case(dims={"tokens": 1, "d": 3584}, dtype="bfloat16")
# Baseline judged and by Nsight Compute, candidate judged and by Nsight Compute: us, on an H200.
HONEST = [
    (2.04, 3.33, 1.64, 2.59),
    (1.91, 2.53, 1.66, 2.34),
    (3.79, 4.51, 1.77, 2.21),
    (26.33, 26.37, 22.20, 20.83),
    (174.63, 175.94, 162.04, 159.97),
    (24.22, 21.54, 22.79, 20.13),
]


def time(
    base: float, base_profiled: float, judged: float, profiled: float, launches: int = 1
) -> MeasuredTime:
    return measured_time(
        CASE,
        base / judged,
        baseline_us=base,
        median_us=judged,
        ratio_low=1,
        ratio_high=1,
        limit_us=0.5,
        event_us=8,
        profiled_us=profiled,
        baseline_profiled_us=base_profiled,
        launches=launches,
        baseline_launches=1,
    )


@pytest.mark.parametrize("figures", HONEST)
def test_honest_kernels_are_not_doubted(figures: tuple[float, float, float, float]) -> None:
    assert doubt(time(*figures)) == ""


@pytest.mark.parametrize("figures", [f for f in HONEST if f[2] > 20])
def test_two_thirds_of_a_large_kernels_time_are_doubted(
    figures: tuple[float, float, float, float],
) -> None:
    base, base_profiled, judged, profiled = figures
    assert "Nsight Compute measured" in doubt(time(base, base_profiled, judged * 2 / 3, profiled))


def test_a_tenth_of_any_kernel_is_doubted() -> None:
    assert all(doubt(time(b, bp, j / 10, p)) for b, bp, j, p in HONEST)


def test_each_launch_may_cost_something_by_itself() -> None:
    assert doubt(time(3.0, 4.2, 3.0, 8.5)), "one launch does not"
    assert not doubt(time(3.0, 4.2, 3.0, 8.5, launches=4))


def test_a_gpu_whose_launches_cost_more_is_known_by_its_baseline() -> None:
    assert doubt(time(3.0, 3.5, 1.2, 4.9))
    assert not doubt(time(3.0, 6.5, 1.2, 4.9))


def test_the_limit_is_where_it_is_said_to_be() -> None:
    at = MIN_SHARE * 98.5
    assert not doubt(time(100, 100, at, 100)) and doubt(time(100, 100, at - 0.01, 100))


def test_nan_is_doubted() -> None:
    assert doubt(time(3.0, 4.0, 1.0, 3.0).model_copy(update={"median_us": math.nan}))


def test_only_cases_that_were_looked_at_are_told() -> None:
    seen = time(*HONEST[1])
    unseen = seen.model_copy(update={"profiled_us": None, "baseline_profiled_us": None})
    assert compared([unseen, seen]) == [(seen, 2.34)]
    assert in_short([unseen, seen]) == "0.71 of Nsight Compute's durations"
    (line,) = agreement([unseen, seen])
    assert "judged 1.66 us, 0.71 of Nsight Compute's 2.34 us; baseline 1.91 of 2.53 us" in line
