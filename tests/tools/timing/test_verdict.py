"""Verdicts from times: intervals, ties, regressions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.judge import Judge
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.runner import Mode, Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.timing.verdict import judge_times
from astra_chat.tools.types import AnyTime, Case, Implausible, Timed, Wrong
from tests.time_samples import estimated_time, measured_time


def case(tokens: int) -> Case:
    return Case(dims={"tokens": tokens, "d": 64}, dtype="float16")


def measured(ratio: float, half: float = 0.004, weight: float = 1.0, tokens: int = 1) -> AnyTime:
    return measured_time(
        case(tokens),
        ratio,
        weight=weight,
        baseline_us=10 * ratio,
        median_us=10.0,
        ratio_low=ratio * math.exp(-half),
        ratio_high=ratio * math.exp(half),
        limit_us=5.0,
        baseline_event_us=15.0,
        event_us=15.0,
    )


def estimated(ratio: float, weight: float = 1.0, factor: float = 1.1) -> AnyTime:
    return estimated_time(
        case(1),
        ratio,
        weight=weight,
        baseline_us=10 * ratio,
        median_us=10.0,
        ratio_low=ratio / factor,
        ratio_high=ratio * factor,
        limit_us=5.0,
        limiter="dram",
    )


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
    ("ratio", "factor", "verdict"),
    [
        (1.5, 1.1, "accepted"),
        (1.08, 1.1, "tie"),
        (0.95, 1.1, "tie"),
        (0.8, 1.1, "slower"),
        (1.5, 1.6, "tie"),
        (1.08, 1.05, "accepted"),
        (0.8, 1.3, "tie"),
        (0.95, 1.04, "slower"),
    ],
)
def test_what_lies_inside_the_prediction_interval_is_a_tie(
    ratio: float, factor: float, verdict: str
) -> None:
    found, word, why = judge_times([estimated(ratio, factor=factor)])
    assert found == pytest.approx(ratio) and word == verdict
    assert f"90 % prediction interval {ratio / factor:.2f} to {ratio * factor:.2f}" in why


def test_an_estimated_regression_is_not_hidden() -> None:
    assert judge_times([estimated(3.0, weight=9), estimated(0.7)])[1] == "tie"


HALF = """
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
__global__ void silu(__half* out, const __half* in, int64_t d, int64_t total, bool timed) {
  for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < total; i += gridDim.x * 256) {
    const __half g = in[i + i / d * d], u = in[i + i / d * d + d];
    const float sigmoid = 1.0f / (1.0f + __expf(-float(g)));
    out[i] = timed ? (g * __half(sigmoid)) * u : __half(float(g) * sigmoid * float(u));
  }
}
extern "C" cudaError_t silu_and_mul(void* out, const void* in, int64_t tokens, int64_t d, int,
                                    cudaStream_t stream) {
  silu<<<8, 256, 0, stream>>>((__half*)out, (const __half*)in, d, tokens * d,
                              tokens == 16 && d == 1024);
  return cudaGetLastError();
}
"""


@pytest.mark.second_tier
def test_what_is_timed_is_as_precise_as_what_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half precision is within the tolerance; it is the baseline's own errors that tell. And the
    baseline's estimate is made once for all candidates."""
    timed: list[tuple[Path, int]] = []
    run = Runner.run

    def watched(
        runner: Runner,
        build: Build,
        oracle_cases: Sequence[OracleCase],
        mode: Mode,
        *more: Any,
        **named: Any,
    ) -> Iterator[CaseRun | Failure]:
        timed.extend([(build.folder, len(oracle_cases))] if mode == "time" else [])
        return run(runner, build, oracle_cases, mode, *more, **named)

    monkeypatch.setattr(Runner, "run", watched)
    few = Case(dims={"tokens": 16, "d": 1024}, dtype="float16")
    task = find_task("silu_and_mul")
    task = task.model_copy(update={"types": ({"T": "float16"},), "demo": ((few, 1.0),)})
    checked = [c for c in task.check if c.dtype == "float16" and c.dims["tokens"] < 16]
    task = task.model_copy(update={"check": tuple(checked[:6])})
    with Judge(task, pick_device("virtual")) as judge:
        honest = judge.evaluate(HALF.replace("tokens == 16 && d == 1024", "false")).outcome
        outcome = judge.evaluate(HALF).outcome
    assert isinstance(honest, Timed), honest
    times = Counter(folder for folder, _ in timed)
    assert sorted(times.values()) == [1, 2, 2], "candidates also before their check"
    assert isinstance(outcome, Wrong) and outcome.reason == "precision", outcome
    assert "while timed" in outcome.note and outcome.case.dims == few.dims


def few(**update: Any) -> Task:
    """silu_and_mul with one small case to time, and few to check."""
    timed = Case(dims={"tokens": 16, "d": 1024}, dtype="float16")
    task = find_task("silu_and_mul")
    checked = [c for c in task.check if c.dtype == "float16" and c.dims["tokens"] < 16]
    update |= {"types": ({"T": "float16"},), "demo": ((timed, 1.0),), "check": tuple(checked[:3])}
    return task.model_copy(update=update)


@pytest.mark.second_tier
def test_a_kernel_that_sleeps_is_slower_on_the_virtual_gpu_too() -> None:
    awake = HALF.replace("tokens == 16 && d == 1024", "false").replace("<<<8,", "<<<64,")
    sleeping = awake.replace(
        "__half* in, int64_t d, int64_t total, bool timed) {",
        "__half* in, int64_t d, int64_t total, bool timed) {\n  __nanosleep(1000000);",
    )
    assert sleeping != awake
    with Judge(few(), pick_device("virtual")) as judge:
        outcome = judge.evaluate(sleeping).outcome
    assert isinstance(outcome, Timed) and outcome.verdict == "slower", outcome
    assert outcome.cases[0].median_us > 1000


@pytest.mark.second_tier
def test_a_time_below_the_physical_limit_is_implausible_on_the_virtual_gpu_too() -> None:
    """A contract that claims more work than any kernel needs to do."""
    with Judge(few(flops="6000000000*tokens*d"), pick_device("virtual")) as judge:
        outcome = judge.evaluate(HALF.replace("tokens == 16 && d == 1024", "false")).outcome
    assert isinstance(outcome, Implausible), outcome
    assert outcome.why.startswith("estimated: ") and "below the physical limit" in outcome.why
