"""Raw samples to a measured time: intervals, noise, throttled blocks, and impossible figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import Block, CaseReport
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.timing.gpu_samples import (
    SPACED_NOTE,
    case_limit_us,
    interval,
    measured_time,
    steady,
)
from astra_chat.tools.timing.raw_samples import unpack
from astra_chat.tools.types import Case, Device, DTypeName, Implausible, MeasuredTime
from tests.time_samples import READING, raw_times

H200 = Device(kind="cuda", name="NVIDIA H200", arch="sm_90", spec="h200")
CASE = Case(dims={"tokens": 64, "d": 8192}, dtype="float16")


def block(candidate_us: float, control_us: float = 3.0, **reading: Any) -> Block:
    return Block(
        candidate_first=False,
        baseline=(2.9, 3.1),
        candidate=(candidate_us, candidate_us),
        control=(control_us, control_us),
        spent_s=1.0,
        clock=READING.model_copy(update=reading),
    )


def judged(blocks: list[Block], **fields: Any) -> MeasuredTime | Implausible:
    times = raw_times(blocks)
    told = CaseReport(times=times.model_copy(update=fields))
    run = CaseRun(OracleCase(CASE, Path(), Path()), Path(), told, 0x7FA5)
    return measured_time(Runner(find_task("silu_and_mul"), H200), run, 2.0)


def test_a_time_and_its_ratio() -> None:
    time = judged([block(2.0 + 0.001 * i) for i in range(11)])
    assert isinstance(time, MeasuredTime)
    assert (time.baseline_us, time.median_us) == (3.0, pytest.approx(2.005))
    assert time.ratio == pytest.approx(3 / 2.005) and time.ratio_low < time.ratio < time.ratio_high
    assert (time.warm_us, time.blocks, time.sm_clock_mhz, time.weight) == (1.5, 11, 1980, 2.0)
    assert [b.candidate_us for b in unpack(time.raw).blocks] == [2.0 + 0.001 * i for i in range(11)]


def test_no_interval_is_narrower_than_what_the_baseline_gains_over_itself() -> None:
    quiet = judged([block(2.0)] * 10)
    noisy = judged([block(2.0, control_us=2.85)] * 10)
    assert isinstance(quiet, MeasuredTime) and isinstance(noisy, MeasuredTime)
    assert quiet.ratio_low == pytest.approx(1.5) and noisy.ratio_low < 1.5 * 0.951
    assert noisy.noise == pytest.approx(np.log(3 / 2.85))


def test_throttled_and_slow_blocks_are_left_out() -> None:
    good = [block(2.0)] * 9
    bad = [block(9.0, throttled=True), block(9.0, sm_clock_mhz=1200)]
    time = judged(good + bad)
    assert isinstance(time, MeasuredTime) and time.median_us == 2.0 and time.blocks == 9
    assert time.note == "", "some always are"
    many = judged(good + bad * 3)
    assert isinstance(many, MeasuredTime)
    assert many.note == "6 of 15 blocks left out: throttled or slowly clocked"
    assert len(steady(bad[:1])) == 1


def test_a_gpu_that_throttles_all_the_time_is_told_of() -> None:
    hot = [block(2.0, throttled=True, temperature_c=80 + i, power_w=700) for i in range(5)]
    time = judged(hot)
    assert isinstance(time, MeasuredTime) and time.blocks == 5
    told = (
        "the GPU was throttled all the time (84 C, 700 W), but these blocks could not be left out"
    )
    assert time.note == told


def test_an_interval_never_rests_on_a_block_or_two() -> None:
    """One steady block of ten would have an interval without width."""
    hot = [block(2.0 + i / 10, throttled=True, temperature_c=80, power_w=700) for i in range(9)]
    time = judged([block(1.0), *hot])
    assert isinstance(time, MeasuredTime) and time.blocks == 10
    assert time.ratio_high / time.ratio_low > 1.1
    assert time.note.startswith("the GPU was throttled in 9 of 10 blocks (80 C, 700 W)")


def test_what_the_gpu_said_at_each_block_is_kept() -> None:
    said = {"memory_clock_mhz": 3201, "temperature_c": 41, "power_w": 310, "throttle_reasons": 0}
    slow = {**said, "throttle_reasons": 4, "throttled": True}
    time = judged([*[block(2.0, **said)] * 9, block(9.0, **slow)])
    assert isinstance(time, MeasuredTime) and time.blocks == 9
    assert time.gpu["throttle_reasons"] == (0,) * 9 + (4,), "that of a block left out, too"
    assert time.gpu["memory_clock_mhz"] == (3201,) * 10
    assert time.gpu.keys() == {"sm_clock_mhz", *said}


def test_others_on_the_gpu_are_told_of() -> None:
    time = judged([block(2.0)] * 10, other_processes=2)
    assert isinstance(time, MeasuredTime)
    assert time.note == "2 other processes used the GPU at the same time"


def test_below_the_physical_limit_is_not_believed() -> None:
    outcome = judged([block(0.4)] * 10)
    assert isinstance(outcome, Implausible) and "physical limit" in outcome.why


@pytest.mark.parametrize(
    ("dtype", "granted", "us"),
    [("float16", False, 101), ("float32", False, 1495), ("float32", True, 101)],
)
def test_the_floor_of_arithmetic_is_that_of_the_tensor_cores_where_they_may_be_used(
    dtype: DTypeName, granted: bool, us: float
) -> None:
    """A product of matrices in half precision is not refused for being faster than float32 can."""
    task = find_task("silu_and_mul").model_copy(
        update={"flops": "100000000000", "tensor_float32": granted}
    )
    oracle_case = OracleCase(CASE.model_copy(update={"dtype": dtype}), Path(), Path())
    assert case_limit_us(Runner(task, H200), oracle_case) == pytest.approx(us, rel=0.01)


def test_events_that_claim_far_less_than_the_host_saw_are_not_believed() -> None:
    outcome = judged([block(2.0)] * 10, event_us=10.0)
    assert isinstance(outcome, Implausible) and "host's clock" in outcome.why


def test_nan_is_not_believed() -> None:
    assert isinstance(judged([block(float("nan"))] * 10), Implausible)


def test_spaced_launches_say_so() -> None:
    time = judged([block(2.0)] * 10, spaced=True)
    assert isinstance(time, MeasuredTime) and time.note == SPACED_NOTE


def test_the_interval_covers_the_truth_and_narrows() -> None:
    random = np.random.default_rng(1)
    covered, widths = 0, []
    for _ in range(200):
        low, middle, high = interval(list(random.normal(0.05, 0.01, 21)))
        assert low <= middle <= high
        covered += low <= 0.05 <= high
        widths.append(high - low)
    assert covered >= 180
    low, _, high = interval(list(random.normal(0.05, 0.01, 400)))
    assert high - low < 0.5 * float(np.mean(widths))
