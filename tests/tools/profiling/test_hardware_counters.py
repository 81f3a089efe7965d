"""Which calls CUPTI counts and what is said where it cannot; `-m gpu`: beside Nsight Compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.plan.model import ArgumentAddress, KernelNode, LaunchPlan, PointerRelocation
from astra_chat.tools.profiling import hardware_counters as module
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.hardware_counters import (
    HardwareCounters,
    NotPermitted,
    by_cupti,
    first_alike,
)
from astra_chat.tools.profiling.nsight_compute import by_ncu
from astra_chat.tools.profiling.profile import profile_by, together
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import CountersReport, LaunchFigures
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Crashed
from astra_vgpu.ground.errors import MissingDependency

TASK = find_task("silu_and_mul")
CASES = [OracleCase(case, Path(), Path()) for case, _ in TASK.bench[:3]]


def plan(number: int, grid: int = 1, kernel: str = "_Z4siluv", size: int = 5) -> LaunchPlan:
    pointer = PointerRelocation(at=0, to=ArgumentAddress(name="out", offset=0))
    node = KernelNode(
        kernel=kernel,
        grid=(grid, 1, 1),
        block=(32, 1, 1),
        parameters=bytes(8) + bytes([size]),
        relocations=(pointer,),
    )
    return LaunchPlan(case=CASES[number].case, nodes=(node,))


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        ({}, True),
        ({"grid": 2}, False),
        ({"kernel": "_Z4geluv"}, False),
        ({"size": 6}, False),
    ],
    ids=["the same", "another grid", "another kernel", "another number"],
)
def test_cases_that_launch_the_same_are_counted_once(other: dict[str, Any], alike: bool) -> None:
    plans = [plan(0), plan(1, grid=9), plan(2, **other)]
    assert first_alike(plans) == [0, 1, 0 if alike else 2]


class _Planned:
    """A runner's plans: the third case launches what the first does."""

    task, device = TASK, pick_device("virtual", "h200")

    def planned(self, *_: object) -> list[Call]:
        return [
            Call(one, plan=plan(number, grid=1 + number % 2)) for number, one in enumerate(CASES)
        ]


def counted(report: CountersReport, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is made of such a report of the process, on three cases."""
    asked = list[Call]()

    def reported(_: object, __: object, calls: list[Call]) -> CountersReport:
        asked.extend(calls)
        return report

    monkeypatch.setattr(module, "_report", reported)
    found = by_cupti(_Planned(), None, CASES)  # type: ignore[arg-type]
    assert [call.oracle_case for call in asked] == CASES[:2]
    return found


def test_a_case_that_launches_the_same_gets_the_same_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {m.TIME: "nanosecond", m.DRAM: "percent", m.L2: "percent", m.ISSUE: "percent"}
    calls = tuple(
        (LaunchFigures(kernel="_Z4siluv", values={**dict.fromkeys(names, 30.0), m.TIME: ns}),)
        for ns in (3000.0, 5000.0)
    )
    report = CountersReport(calls=calls, units=names, passes=12)
    found = counted(report, monkeypatch)
    assert isinstance(found, HardwareCounters)
    assert [case[0].values[m.TIME] for case in found.cases] == [3000, 5000, 3000]
    assert found.cases[0][0].kernel == "silu" and found.units[m.TIME] == "ns"
    assert found.words == "CUPTI, 12 passes on 2 cases"
    profiles, _ = profile_by([by_cupti], _Planned(), None, CASES)  # type: ignore[arg-type]
    assert isinstance(profiles, list)
    assert [profile.case for profile in profiles] == [one.case for one in CASES]
    same = f"; counted on {CASES[0].case.label}, which has the same launches"
    assert [same in profile.why for profile in profiles] == [False, False, True]


def test_why_nothing_was_counted_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingDependency, match="no libcupti") as raised:
        counted(CountersReport(lacks="no libcupti"), monkeypatch)
    assert not isinstance(raised.value, NotPermitted)
    with pytest.raises(NotPermitted, match="NVreg_RestrictProfilingToAdminUsers"):
        counted(CountersReport(lacks="insufficient privileges", refused=True), monkeypatch)


def test_a_launch_that_fails_is_the_kernels_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    found = counted(CountersReport(failed=1, status=700), monkeypatch)
    assert isinstance(found, Crashed)
    assert found.case == CASES[1].case and "illegal address" in found.message


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "moe_align_block_size"])
def test_cupti_counts_what_nsight_compute_counts(name: str) -> None:
    task, device = find_task(name), pick_device("cuda")
    built = build(task, task.baseline, device)
    assert isinstance(built, Build)
    runner, oracle = Runner(task, device), Oracle(task)
    try:
        cases = oracle.oracle_cases([case for case, _ in task.bench[:2]], Stop())
        ours, theirs = by_cupti(runner, built, cases), by_ncu(runner, built, cases)
    finally:
        runner.dismiss()
        oracle.close()
    assert isinstance(ours, HardwareCounters) and isinstance(theirs, HardwareCounters)
    for case, beside in zip(ours.cases, theirs.cases, strict=True):
        assert [one.kernel for one in case] == [one.kernel for one in beside]
        one, other = together(ours.units, case), together(theirs.units, beside)
        assert set(m.NEEDED) | set(m.KEY) <= set(one)
        for exact in ("launch__registers_per_thread", "launch__grid_size", m.OCCUPANCY_LIMIT):
            assert one[exact].value == pytest.approx(other[exact].value)
        assert one[m.LOADS].value == pytest.approx(other[m.LOADS].value, rel=0.02)
        assert one[m.INSTRUCTIONS].value == pytest.approx(other[m.INSTRUCTIONS].value, rel=0.02)
        assert one[m.TIME].value == pytest.approx(other[m.TIME].value, rel=0.25, abs=1500)
        shared = set(one) & set(other)
        assert {one[n].unit for n in shared} == {other[n].unit for n in shared}
