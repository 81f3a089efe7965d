"""Verdicts from times: intervals, ties, regressions."""

from __future__ import annotations

import math

import pytest

from astra_chat.tools.time import judge_times
from astra_chat.tools.types import AnyTime, Case, EstimatedTime, MeasuredTime


def case(tokens: int) -> Case:
    return Case(dims={"tokens": tokens, "d": 64}, dtype="float16")


def measured(ratio: float, half: float = 0.004, weight: float = 1.0, tokens: int = 1) -> AnyTime:
    return MeasuredTime(
        case=case(tokens), weight=weight, baseline_us=10 * ratio, median_us=10.0, ratio=ratio,
        ratio_low=ratio * math.exp(-half), ratio_high=ratio * math.exp(half), limit_us=5.0,
        percent_of_limit=50.0, baseline_event_us=15.0, event_us=15.0, sm_clock_mhz=1980,
    )  # fmt: skip


def estimated(ratio: float, weight: float = 1.0) -> AnyTime:
    return EstimatedTime(
        case=case(1), weight=weight, baseline_us=10 * ratio, median_us=10.0, ratio=ratio,
        ratio_low=ratio / 1.1, ratio_high=ratio * 1.1, limit_us=5.0, percent_of_limit=50.0,
        limiter="dram",
    )  # fmt: skip


def test_the_mean_is_weighted_and_geometric() -> None:
    ratio, _, _ = judge_times([measured(2.0, weight=3), measured(1.0, weight=1)])
    assert ratio == pytest.approx(2**0.75)


def test_a_clear_gain_is_accepted() -> None:
    assert judge_times([measured(1.2), measured(1.05)])[1] == "accepted"


def test_noise_is_a_tie() -> None:
    assert judge_times([measured(1.002, half=0.01)])[1] == "tie"


def test_a_clear_loss_is_slower() -> None:
    assert judge_times([measured(0.9)])[1] == "slower"


def test_one_regressing_case_is_not_hidden_by_the_mean() -> None:
    _, verdict, why = judge_times([measured(2.0, weight=9), measured(0.95, tokens=77)])
    assert verdict == "tie" and "77x64" in why


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.5, "accepted"), (1.08, "tie"), (0.95, "tie"), (0.8, "slower")]
)
def test_estimates_closer_than_the_model_resolves_are_ties(ratio: float, verdict: str) -> None:
    assert judge_times([estimated(ratio)])[1] == verdict


def test_an_estimated_regression_is_not_hidden() -> None:
    assert judge_times([estimated(3.0, weight=9), estimated(0.7)])[1] == "tie"
