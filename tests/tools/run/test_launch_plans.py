"""Launch plans for the calls of a run, and what a launcher that fails on some cases has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import record_each
from astra_chat.tools.run import launch_plans as module
from astra_chat.tools.run.launch_plans import MANY, MAX_CRASHES, LaunchPlans, recorded_apart
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.forked import server_of
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.task.folder import load_task
from astra_chat.tools.types import Case, Crashed, Refused
from astra_vgpu.ground.gpu_specs import spec

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


@pytest.mark.parametrize(("entry", "cases"), [("", CASES), ("odd", CASES[:3]), ("odd", CASES[:2])])
def test_plans_recorded_apart_are_the_same(built: Build, entry: str, cases: list[Case]) -> None:
    """Also what is wrong with the launcher, which ends all of it."""
    task, seed = TASK.model_copy(update={"entry": entry or TASK.entry}), Seed("5")
    here = record_each(built, task, cases, spec(DEVICE.spec), seed.random())
    assert recorded_apart(built, task, cases, DEVICE, seed, Stop()) == here


def test_many_plans_are_recorded_apart_where_there_are_cores(
    built: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[int]()
    cases = [Case(dims={"rows": rows, "n": 5}, dtype="float32") for rows in range(1, MANY + 1)]

    def apart(*given: Any) -> Any:
        asked.append(len(given[2]))
        return recorded_apart_itself(*given)

    recorded_apart_itself = module.recorded_apart
    monkeypatch.setattr(module, "recorded_apart", apart)
    monkeypatch.setattr(module, "begins_ahead", lambda: True)
    plans = [
        LaunchPlans(TASK, DEVICE, Stop()).of(built, some, None, Seed("1"))
        for some in (cases, cases[:2])
    ]
    assert asked == ([MANY] if server_of(module.CHILD) else [])
    assert all(isinstance(one, LaunchPlan) for one in plans[0]) and plans[1] == plans[0][:2]


def test_a_stopped_recording_raises(built: Build) -> None:
    (stop := Stop()).set()
    with pytest.raises(Cancelled):
        recorded_apart(built, TASK, CASES, DEVICE, Seed("1"), stop)
