"""A candidate that ran out of time on a busy machine is judged once more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from astra_chat.tools.busy_machine import unhurried
from astra_chat.tools.errors import AstraError
from astra_chat.tools.evaluation import Evaluation, Step
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.types import Correct, Outcome, TimedOut

LATE, RIGHT = TimedOut(step="check", limit_s=60.0), Correct(cases=1, worst=0.0)


def evaluation(outcome: Outcome, check_s: float = 0.0, waited_s: float = 0.0) -> Evaluation:
    steps = (
        Step(name="build", seconds=500.0),
        Step(name="check", seconds=check_s, waited_s=waited_s),
    )
    return Evaluation(
        candidate="0" * 12, device=virtual_device("h200"), outcome=outcome, steps=steps
    )


def never() -> Evaluation:
    raise AssertionError("nobody asks")


def says(found: Evaluation) -> Callable[[], Evaluation]:
    return lambda: found


def test_what_did_not_run_out_of_time_stands() -> None:
    first = evaluation(RIGHT)
    assert unhurried(first, never, never) is first


@pytest.mark.parametrize(("check_s", "waited_s"), [(29.0, 0.0), (80.0, 55.0)])
def test_on_a_machine_that_is_not_busy_it_stands(check_s: float, waited_s: float) -> None:
    """Time for which another judge held the GPU is none of the baseline's."""
    first = evaluation(LATE)
    assert unhurried(first, says(evaluation(RIGHT, check_s, waited_s)), never) is first


def test_on_a_busy_machine_the_second_verdict_counts() -> None:
    first, baseline = evaluation(LATE), says(evaluation(RIGHT, 40.0))
    for second in (evaluation(RIGHT), evaluation(LATE)):
        assert unhurried(first, baseline, says(second)) is second


def test_where_the_baseline_has_no_time_either_nothing_is_judged() -> None:
    late = evaluation(LATE)
    assert unhurried(late, says(evaluation(LATE, 61.0)), says(evaluation(RIGHT))).outcome == RIGHT
    with pytest.raises(AstraError, match=r"limit of 60 s twice.* took 61 s: this machine is busy"):
        unhurried(late, says(evaluation(LATE, 61.0)), says(late))
