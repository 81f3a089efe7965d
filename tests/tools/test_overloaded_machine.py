"""A candidate that timed out on an overloaded machine is judged once more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from astra_chat.tools.evaluation import Evaluation, Step
from astra_chat.tools.judge import Judge, unhurried
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Correct, Device, Outcome, TimedOut
from astra_vgpu.ground.errors import AstraError

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


def test_what_did_not_time_out_stands() -> None:
    first = evaluation(RIGHT)
    assert unhurried(first, never, never) is first


@pytest.mark.parametrize(("check_s", "waited_s"), [(29.0, 0.0), (80.0, 55.0)])
def test_on_a_machine_that_is_not_overloaded_it_stands(check_s: float, waited_s: float) -> None:
    """Time for which another judge held the GPU is none of the baseline's."""
    first = evaluation(LATE)
    assert unhurried(first, says(evaluation(RIGHT, check_s, waited_s)), never) is first


def test_on_an_overloaded_machine_the_second_verdict_counts_and_says_so() -> None:
    first, baseline = evaluation(LATE), says(evaluation(RIGHT, 40.0))
    for outcome in (RIGHT, LATE):
        found = unhurried(first, baseline, says(evaluation(outcome)))
        assert found.outcome == outcome
        assert found.steps[0].note == "judged again, because 'check' exceeded 60 s the first time"


def test_where_the_baseline_times_out_too_nothing_is_judged() -> None:
    late, baseline = evaluation(LATE), says(evaluation(LATE, 20.0))
    assert unhurried(late, baseline, says(evaluation(RIGHT))).outcome == RIGHT
    with pytest.raises(AstraError, match=r"limit of 60 s twice.* this machine is overloaded"):
        unhurried(late, baseline, says(late))


def test_a_judge_asks_for_it_on_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for a candidate, not for the baseline; the virtual GPU's limits are of processor
    time."""
    found = {"cuda": 0, "virtual": 0}

    def judged(judge: Judge, *_: object) -> Evaluation:
        found[judge.device.kind] += 1
        return evaluation(LATE)

    monkeypatch.setattr(Judge, "_evaluated", judged)
    monkeypatch.setattr(Judge, "prepare", lambda _: None)
    monkeypatch.setattr(Judge, "check", lambda *_: evaluation(RIGHT, 40.0))
    cuda = Device(kind="cuda", name="NVIDIA H100", arch="sm_90", spec="h100")
    for device, times in ((cuda, 3), (virtual_device("h200"), 2)):
        with Judge(find_task("silu_and_mul"), device) as judge:
            judge.evaluate("candidate")
            judge.evaluate(judge.baseline)
        assert found[device.kind] == times
