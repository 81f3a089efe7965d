"""What the gate's rule says of a kernel beside itself, and of a loss put into the times."""

from __future__ import annotations

import pytest

from lab.gate_rates import pair, summary
from tests.tools.timing.test_regression import measured


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
