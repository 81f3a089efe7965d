"""Two candidates compared: what is a tie, measured and estimated."""

from __future__ import annotations

import pytest

from astra_chat.tools.timing.comparison import ESTIMATES, compared, resolution, resolution_text
from astra_chat.tools.types import Timed
from tests.chat_samples import CASE, timed
from tests.time_samples import measured_time


def measured(ratio: float, half_width: float = 0.01) -> Timed:
    """A measured timing of one case."""
    time = measured_time(
        CASE,
        ratio,
        baseline_us=2,
        median_us=2 / ratio,
        ratio_low=ratio * (1 - half_width),
        ratio_high=ratio * (1 + half_width),
        limit_us=0.5,
        event_us=7,
    )
    return timed(ratio).model_copy(update={"cases": (time,)})


def test_estimates_are_told_apart_from_a_fixed_ratio_on() -> None:
    assert 1.03 < ESTIMATES < 1.05
    assert resolution(timed(1.0), timed(2.0)) == ESTIMATES
    assert compared(timed(1.5 * 1.05), timed(1.5)) == "faster"
    assert compared(timed(1.5), timed(1.5 * 1.05)) == "slower"
    assert compared(timed(1.5 * 1.02), timed(1.5)) == compared(timed(1.5), timed(1.5)) == "tie"


def test_measurements_are_told_apart_by_the_intervals_of_both() -> None:
    assert resolution(measured(1.5), measured(1.6)) == pytest.approx(1.0142, abs=1e-3)
    assert compared(measured(1.51), measured(1.5)) == "tie"
    assert compared(measured(1.6), measured(1.5)) == "faster"
    assert compared(measured(1.51, 0.001), measured(1.5, 0.001)) == "faster"
    assert compared(measured(1.51, 0.02), measured(1.5, 0.001)) == "tie"
    assert compared(measured(1.505, 0.0001), measured(1.5, 0.0001)) == "tie"


def test_the_rule_is_told_for_each_basis() -> None:
    assert "0.5%" in resolution_text("measured")
    assert resolution_text("estimated") == "whose ratios differ by less than 4%"
    assert "intervals of both" in resolution_text("measured")
