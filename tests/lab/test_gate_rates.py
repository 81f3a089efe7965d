"""What the gate's rule says of a kernel beside itself, and of a loss put into the times."""

from __future__ import annotations

import pytest

from astra_chat.tools.timing.regression import losses
from astra_chat.tools.types import MeasuredTime, Timed
from astra_vgpu.ground.errors import BadInput
from lab.gate_rates import (
    beside_itself,
    evaluation_of,
    measured_evaluations,
    pair,
    recorded_pairs,
    summary,
)
from tests.recorded_files import LIVE
from tests.tools.timing.test_regression import measured

MEASURED = LIVE / "detached/silu_and_mul*"


@pytest.mark.parametrize(
    ("first", "second", "width", "false_alarm", "found"),
    [(1.0, 1.0, 0.005, False, True), (0.9, 0.9, 0.005, True, True), (1.0, 1.0, 0.05, False, False)],
)
def test_rates_come_of_pairs(
    first: float, second: float, width: float, false_alarm: bool, found: bool
) -> None:
    """A narrow interval shows a loss of 3 %, a wide one does not."""
    one = pair("doubled", measured(first, width), measured(second, width), 0.03)
    assert (one.false_alarm, one.found) == (false_alarm, found)
    alarms, misses = summary([one] * 20)
    assert alarms.startswith(f"false alarms: {20 * false_alarm} of 20, at most")
    assert misses.startswith(f"losses missed: {20 * (not found)} of 20, at most")


@pytest.mark.parametrize("ratio", [1.0, 0.9])
def test_the_rule_reads_times_alone_as_a_whole_evaluation(ratio: float) -> None:
    whole = measured(ratio)
    assert isinstance(whole.outcome, Timed)
    alone = evaluation_of(whole.device, whole.outcome.cases)
    found, known = losses(alone, lambda: alone), losses(whole, lambda: whole)
    assert [loss.where for loss in found] == [loss.where for loss in known]


def test_a_measurement_without_a_loss_put_into_it_says_nothing_of_losses() -> None:
    one = pair("doubled", measured(1.0), measured(1.0), 0.03)
    alone = one.model_copy(update={"found": None})
    alarms, misses = summary([one, alone, alone])
    assert alarms.startswith("false alarms: 0 of 3") and misses.startswith("losses missed: 0 of 1")


def test_a_recorded_measurement_contains_one_of_the_baseline_beside_itself() -> None:
    first, second = list(measured_evaluations([MEASURED]))[:2]
    found, timed = beside_itself(first, second).outcome, first.outcome
    assert isinstance(found, Timed) and isinstance(timed, Timed)
    assert abs(found.ratio - 1) < 0.02 < abs(timed.ratio - 1) and found.verdict == "tie"
    for own, other in zip(found.cases, timed.cases, strict=True):
        assert isinstance(own, MeasuredTime) and isinstance(other, MeasuredTime)
        assert own.baseline_us == other.baseline_us != own.median_us
        assert own.ratio_low <= own.ratio * (1 - own.noise / 2)


@pytest.mark.second_tier
def test_recorded_noise_gives_no_false_alarm_and_shows_a_loss() -> None:
    found = recorded_pairs([MEASURED], 0.03, 60)
    assert not any(one.false_alarm for one in found)
    assert sum(bool(one.found) for one in found) >= 57
    assert len({one.ratios for one in found}) > 10
    small = recorded_pairs([MEASURED], 0.001, 60)
    assert sum(bool(one.found) for one in small) < 6, "a loss of 0.1 % is noise"


def test_few_recorded_measurements_say_nothing() -> None:
    with pytest.raises(BadInput, match="no GPU has 3 recorded measurements"):
        recorded_pairs([LIVE / "further/rotary_embedding-sglang-team-1.jsonl"], 0.03, 4)
