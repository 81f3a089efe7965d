"""Launch plans for the calls of a run, and what a launcher that fails on some cases has."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.launch_plans import MAX_CRASHES, LaunchPlans
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Case, Crashed, Refused

TASK = load_task(Path(__file__).parents[2] / "attacks" / "tasks" / "row_sum")
DEVICE = virtual_device("h200")
CASES = [Case(dims={"rows": rows, "n": 5}, dtype="float32") for rows in range(1, 7)]
SOURCE = """
#include <cstdint>
#include <cstdlib>
#include <cuda_runtime.h>
__global__ void nothing() {}
#define SIGNATURE(name) extern "C" cudaError_t name(void* out, const void* x, int64_t rows, \\
                                                    int64_t, int, cudaStream_t stream)
SIGNATURE(row_sum) { nothing<<<rows, 32, 0, stream>>>(); return cudaGetLastError(); }
SIGNATURE(odd) { if (rows == 3) abort(); nothing<<<rows, 32, 0, stream>>>(); return cudaSuccess; }
SIGNATURE(never) { abort(); }
SIGNATURE(mallocs) { void* p; cudaMalloc(&p, 4); return cudaFree(p); }
"""


@pytest.fixture(scope="module")
def built() -> Build:
    found = build(TASK, SOURCE, DEVICE)
    assert isinstance(found, Build), found
    return found


@pytest.fixture
def recorder() -> LaunchPlans:
    return LaunchPlans(TASK, DEVICE, Stop())


def test_every_call_has_the_plan_of_its_case(built: Build, recorder: LaunchPlans) -> None:
    cases = [CASES[1], CASES[0], CASES[1]]
    plans = recorder.of(built, cases, None, Seed("1"))
    assert all(isinstance(plan, LaunchPlan) for plan in plans)
    grids = [plan.kernels[0].grid for plan in plans if isinstance(plan, LaunchPlan)]
    assert grids == [(2, 1, 1), (1, 1, 1), (2, 1, 1)]


def test_a_crash_is_that_case_s(built: Build, recorder: LaunchPlans) -> None:
    plans = recorder.of(built, CASES, ["odd"] * len(CASES), Seed("1"))
    crashed = [plan for plan in plans if isinstance(plan, Crashed)]
    assert [plan.case for plan in crashed] == [CASES[2]] and plans[2] is crashed[0]
    assert sum(isinstance(plan, LaunchPlan) for plan in plans) == len(CASES) - 1


def test_a_launcher_that_always_crashes_is_given_up(built: Build, recorder: LaunchPlans) -> None:
    plans = recorder.of(built, CASES, ["never"] * len(CASES), Seed("1"))
    assert all(isinstance(plan, Crashed) for plan in plans)
    assert len({plan.case.label for plan in plans if isinstance(plan, Crashed)}) == MAX_CRASHES


def test_launchers_of_one_library_fail_each_for_itself(built: Build, recorder: LaunchPlans) -> None:
    plans = recorder.of(built, CASES[:3], ["row_sum", "mallocs", "odd"], Seed("1"))
    assert [type(plan) for plan in plans] == [LaunchPlan, Refused, Crashed]


def test_a_plan_is_recorded_once(built: Build, recorder: LaunchPlans) -> None:
    (first,) = recorder.of(built, CASES[:1], None, Seed("1"))
    (second,) = recorder.of(built, CASES[:1], None, Seed("2"))
    assert first is second


def test_plans_from_elsewhere_are_taken_as_they_are(
    built: Build, recorder: LaunchPlans, tmp_path: Path
) -> None:
    plans = [p for p in recorder.of(built, CASES, None, Seed("1")) if isinstance(p, LaunchPlan)]
    elsewhere = Build(tmp_path, (), cached=False, seconds=0.0)
    other = LaunchPlans(TASK, DEVICE, Stop())
    other.keep(elsewhere, plans)
    assert other.of(elsewhere, CASES[::-1], None, Seed("2")) == plans[::-1]
