"""Nsight Compute's page, read; what is said where it cannot be used; a real one under `-m gpu`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from astra_chat.tools.judge import Judge
from astra_chat.tools.plan.model import KernelNode, LaunchPlan
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling import nsight_compute as module
from astra_chat.tools.profiling import profile as profiling
from astra_chat.tools.profiling.hardware_counters import HardwareCounters, NotPermitted
from astra_chat.tools.profiling.nsight_compute import by_ncu, read_ncu, short_name
from astra_chat.tools.profiling.profile import (
    counter_metrics,
    profile_by,
    profile_gpu,
    source_lines,
    together,
)
from astra_chat.tools.run.nvidia_tools import NvidiaToolRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport, CountedLaunch
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, MeasuredTime, Metric, Profile
from astra_chat.tools.virtual_gpu.adapter import WAITED, Counters, Estimate
from astra_vgpu.ground.errors import MissingDependency
from tests.time_samples import measured_time

PAGE = """==PROF== Connected to process 1
==PROF== Disconnected
"ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","launch__registers_per_thread"
"","","ns","byte","register/thread"
"0","first(int)","3,072","1,000","32"
"1","second(int)","1024","n/a","40"
"""
TASK = find_task("silu_and_mul")
COUNTERS = Counters(
    warp_instructions=Counter(int=10, float=20),
    lane_instructions=960,
    global_load_requests=4,
    global_store_requests=2,
    global_load_bytes=2048,
    global_load_sectors=64,
    global_store_sectors=32,
    unique_load_sectors=64,
    unique_store_sectors=32,
    barriers=6,
)
ORACLE_CASE = OracleCase(TASK.bench[0][0], Path(), Path())
LAUNCH = CountedLaunch(kernel="first", scale=2.0, counters=COUNTERS)
REPORT = CaseReport(
    launches=(LAUNCH,),
    estimate=Estimate(
        us=3.5,
        terms={},
        limiter="latency",
        occupancy=0.5,
        waves=0.1,
        why="idle",
        sampled="",
    ),
)


def plan_of(kernels: int) -> LaunchPlan:
    node = KernelNode(kernel="k", grid=(1, 1, 1), block=(32, 1, 1))
    return LaunchPlan(case=ORACLE_CASE.case, nodes=(node,) * kernels)


def counting(**counters: Any) -> CaseReport:
    """REPORT with other counters."""
    launch = LAUNCH.model_copy(update={"counters": replace(COUNTERS, **counters)})
    return REPORT.model_copy(update={"launches": (launch,)})


def measured() -> MeasuredTime:
    return measured_time(
        Case(dims={"tokens": 1, "d": 8}, dtype="float16"),
        baseline_us=2,
        median_us=1,
        limit_us=0.9,
        percent_of_limit=90,
        event_us=7,
    )


def test_counts_add_up_and_shares_are_means_by_time() -> None:
    units, launches = read_ncu(PAGE)
    metrics = together(units, launches)
    assert metrics[m.TIME].value == 4096 and metrics[m.TIME].unit == "ns"
    assert metrics[m.DRAM_READ].value == 1000, "what ncu could not read is left out"
    assert metrics["launch__registers_per_thread"].value == 34
    assert [launch.kernel for launch in launches] == ["first", "second"]
    for name in (
        "void <unnamed>::silu<__half, 8>(int)",
        "(anonymous namespace)::silu(T1 *)",
        "silu",
    ):
        assert short_name(name) == "silu"


def test_a_page_without_kernels_is_empty() -> None:
    for text in ("==ERROR== No kernels were profiled\n", "\n".join(PAGE.splitlines()[:4])):
        assert read_ncu(text)[1] == []


@pytest.mark.parametrize(
    "page",
    [
        "",
        '"ID"',
        '"ID","Kernel Name"\n',
        '"ID"\n"",\n"0"\n',
        '"ID","a"\n"","',
        '\0\n"ID","\0"\n\0\n\0',
        PAGE[: PAGE.index("1,000")],
        PAGE.replace("3,072", "nan").replace("1,000", "inf"),
    ],
    ids=["nothing", "a word", "a head", "a column", "an open quote", "bytes", "cut", "no numbers"],
)
def test_a_broken_page_gives_nothing_and_no_nonsense(page: str) -> None:
    metrics = together(*read_ncu(page))
    assert m.DRAM_READ not in metrics
    assert all(math.isfinite(metric.value) for metric in metrics.values())


def test_what_ncu_says_within_its_page_is_no_launch() -> None:
    page = PAGE.replace('"1","second', '==WARNING== Found outstanding GPU clock reset\n"1","second')
    assert read_ncu(page) == read_ncu(PAGE)


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "recorded no kernel: no message"),
        ("==ERROR== no kernel\n", "recorded no kernel: ==ERROR== no kernel"),
        (PAGE, f"no counter was read for {m.DRAM}, {m.L2}, {m.ISSUE}"),
        (PAGE.replace("3,072", "n/a").replace("1024", ""), f"was read for {m.TIME}"),
    ],
)
def test_too_little_is_said_and_no_bottleneck_guessed(
    log: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "run_watched", lambda *_, **__: NvidiaToolRun(log, ""))
    monkeypatch.setattr(module, "ncu_command", lambda _: [])
    with pytest.raises(MissingDependency, match=re.escape(words)):
        profile_by([by_ncu], _Plans(1), None, [ORACLE_CASE])  # type: ignore[arg-type]


PARTS = set(m.TIME_PARTS.values())


class _Plans:
    """A runner's plans: how many kernels each case launches."""

    task, device, stop = TASK, pick_device("virtual", "h200"), Stop()

    def __init__(self, *counts: int) -> None:
        self._counts = counts

    def record(self, *_: object) -> list[LaunchPlan]:
        return [plan_of(count) for count in self._counts]


def profiled(
    log: str,
    runner: _Plans,
    cases: int,
    monkeypatch: pytest.MonkeyPatch,
    times_us: Sequence[float] = (),
) -> list[Profile]:
    monkeypatch.setattr(module, "run_watched", lambda *_, **__: NvidiaToolRun(log, ""))
    monkeypatch.setattr(module, "ncu_command", lambda _: [])
    cases_of = [ORACLE_CASE] * cases
    found, words = profile_by([by_ncu], runner, None, cases_of, times_us)  # type: ignore[arg-type]
    assert isinstance(found, list) and words == "Nsight Compute"
    return found


def page(*times_ns: int) -> str:
    """A page on which DRAM and the issue slots are as busy as each other."""
    names = [m.TIME, m.DRAM, m.L2, m.ISSUE, "launch__grid_size"]
    heads = ",".join(f'"{name}"' for name in ("ID", "Kernel Name", *names))
    rows = [f'"{i}","k","{ns}","20","10","20","100"' for i, ns in enumerate(times_ns)]
    return "\n".join([heads, ",".join(['""'] * 7), *rows]) + "\n"


def test_the_kernels_of_one_run_are_divided_over_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = profiled(page(3000, 1000, 2000), _Plans(1, 2), 2, monkeypatch)
    times = [profile.metric(m.TIME) for profile in (one, two)]
    assert [metric and metric.value for metric in times] == [3000, 3000]
    assert "2 launches together" in two.why and "launches" not in one.why


def test_a_run_with_other_kernels_than_planned_gives_no_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(MissingDependency, match="recorded 1 kernel, but 2 were launched"):
        profiled(page(3000), _Plans(1, 1), 2, monkeypatch)


def test_the_parts_add_up_to_what_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    for times_us, wanted in (((2.5,), 2.5), ((), 3.0)):
        (profile,) = profiled(page(3000), _Plans(1), 1, monkeypatch, times_us)
        parts = [metric.value for metric in profile.metrics if metric.name in PARTS]
        assert sum(parts) == pytest.approx(wanted)


def test_a_measured_time_is_divided_by_nsight_computes_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (profile,) = profiled(page(4000), _Plans(1), 1, monkeypatch)
    parts = {metric.name: metric.value for metric in profile.metrics}
    assert sum(parts[name] for name in m.TIME_PARTS.values()) == pytest.approx(4.0)
    assert parts["time_bytes"] == pytest.approx(parts["time_instructions"]) != 0
    assert parts["time_fixed"] == 0.5 and parts["time_block_start"] == pytest.approx(0.0604)
    assert parts[m.REACHABLE] + parts[m.LEFT] == pytest.approx(4.0)
    assert parts.keys() <= m.KNOWN


def cannot(lack: MissingDependency) -> Any:
    """A tool that cannot be used."""

    def tool(*_: object) -> HardwareCounters:
        raise lack

    return tool


def test_without_counters_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where the virtual GPU has counted the same call, whose counts say whose they are."""
    monkeypatch.setattr(profiling, "by_cupti", cannot(MissingDependency("no libcupti")))
    monkeypatch.setattr(profiling, "by_ncu", cannot(MissingDependency("no ncu")))
    monkeypatch.setattr(profiling, "counted_reports", lambda *_, **__: [REPORT])
    asked: Any = (_Plans(1), Built, [ORACLE_CASE])
    found, words = profile_gpu(*asked, [measured()], thorough=False)
    assert isinstance(found, list) and words == "no counters: no libcupti; no ncu"
    (profile,) = found
    assert (profile.bottleneck, profile.why) == ("not profiled", words)
    assert profile.metrics, "counts beside a measured time"
    assert all(one.words.startswith("counted on the virtual GPU: ") for one in profile.metrics)
    assert profile.metric(m.LOADS) is None and profile.metric(m.TIME) is None
    with pytest.raises(MissingDependency, match="not profiled: no counters: no ncu; no libcupti"):
        profile_gpu(*asked, [], thorough=True)


class Built:
    """A build, as far as a profile reads it."""

    source = ""


def test_a_machine_that_refuses_its_counters_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "by_cupti", cannot(NotPermitted("CUPTI")))
    monkeypatch.setattr(profiling, "by_ncu", cannot(AssertionError("it was asked too")))  # type: ignore[arg-type]
    monkeypatch.setattr(profiling, "counted_reports", lambda *_, **__: [None])
    asked: Any = (_Plans(1), Built, [ORACLE_CASE])
    found, words = profile_gpu(*asked, [measured()], thorough=False)
    assert isinstance(found, list) and not found[0].metrics
    assert words.startswith("no counters: CUPTI may not read the GPU's counters: run as root")


def test_what_stands_in_for_cupti_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "run_watched", lambda *_, **__: NvidiaToolRun(page(3000), ""))
    monkeypatch.setattr(module, "ncu_command", lambda _: [])
    tools = [cannot(MissingDependency("no libcupti")), by_ncu]
    found, words = profile_by(tools, _Plans(1), None, [ORACLE_CASE])  # type: ignore[arg-type]
    assert isinstance(found, list) and found[0].metric(m.TIME)
    assert words == "Nsight Compute; no libcupti"


def test_the_virtual_gpu_uses_nsight_computes_names_where_it_can() -> None:
    names = {metric.name for metric in counter_metrics(REPORT)}
    assert {m.TIME, m.LOADS, m.LOAD_SECTORS, m.DRAM_READ, m.INSTRUCTIONS, m.LANES} <= names
    assert names - set(m.WORDS) == {
        "barriers",
        "global_load_bytes_per_request",
        "shared_wavefronts_per_request",
        m.LOAD_ROUNDS,
        m.MACHINE_PATH,
        m.PTX_PATH,
        m.CHAIN,
        m.WARPS_HELD,
        m.TURNS,
    }
    assert names <= m.KNOWN
    metrics = counter_metrics(counting(local_load_sectors=40))
    local = {metric.name: metric.value for metric in metrics if metric.name not in names}
    assert local == {m.LOCAL_LOADS: 80.0}


def test_machine_instructions_are_told_by_unit_where_they_are_known() -> None:
    metrics = counter_metrics(counting(machine_instructions=Counter(fma=20, alu=21)))
    values = {metric.name: metric.value for metric in metrics}
    assert values["machine_instructions_alu"] == 42 and values["machine_instructions_fma"] == 40
    assert values[m.INSTRUCTIONS] == 82, "those of the PTX were 60"
    assert values[m.LANES] == 100.0 and values.keys() <= m.KNOWN


def test_the_chain_is_told_by_unit_where_the_machine_code_is_known() -> None:
    estimate = REPORT.estimated
    parts = {"chain_before_load": 30.0, "chain_units": {"xu": 20.0, "alu": 40.0}}
    known = REPORT.model_copy(update={"estimate": replace(estimate, **parts)})
    metrics = counter_metrics(known)
    told = {metric.name: metric.value for metric in metrics if metric.name.startswith("chain_")}
    assert list(told.items()) == [
        (m.CHAIN_BEFORE_LOAD, 30.0),
        ("chain_cycles_alu", 40.0),
        ("chain_cycles_xu", 20.0),
    ]
    assert told.keys() <= m.KNOWN


def test_the_chain_is_told_by_lines_of_the_source() -> None:
    """Not lines of headers, nor such as the source does not have."""
    inner, places = (
        "kernel.cu:1, inlined at kernel.cu:",
        ("kernel.cu:2", "row.cuh:1", "kernel.cu:9"),
    )
    lines = {**dict.fromkeys(places, 5.0), f"{inner}3": 7.0, f"{inner}2": 8.0}
    estimate = replace(REPORT.estimated, chain_lines=lines, load_lines={f"{inner}2": 2.0})
    found = source_lines(estimate, "  load(p);\nx = f(p);\ny = f(q);\n")
    assert [(one.line, one.calls, one.chain_cycles, one.load_rounds) for one in found] == [
        (2, (), 5.0, 0.0),
        (1, (2,), 8.0, 2.0),
        (1, (3,), 7.0, 0.0),
    ]
    assert [one.text for one in found] == ["x = f(p);", "load(p);", "load(p);"]
    assert source_lines(REPORT.estimated, "") == ()
    assert [one.waited_at for one in found] == [""] * 3
    (added,) = source_lines(replace(estimate, chain_lines={"kernel.cu:0": 9.0}, load_lines={}), "}")
    assert (added.line, added.text) == (0, "code that nvcc adds, such as a 64-bit division")


def test_a_load_s_rounds_are_told_with_the_place_that_waits_for_most_of_them() -> None:
    loads = {
        f"kernel.cu:1{WAITED}row.cuh:7": 4.0,
        f"kernel.cu:1{WAITED}kernel.cu:2, inlined at kernel.cu:3": 3.0,
        f"kernel.cu:1{WAITED}kernel.cu:3": 2.0,
        "kernel.cu:2": 1.0,
        f"kernel.cu:3{WAITED}kernel.cu:0": 1.0,
    }
    estimate = replace(REPORT.estimated, chain_lines={}, load_lines=loads)
    found = source_lines(estimate, "x = p[i];\ny = f(x);\nz = y;\n")
    assert [(one.line, one.load_rounds, one.waited_at) for one in found] == [
        (1, 9.0, "line 2, inlined at 3"),
        (2, 1.0, ""),
        (3, 1.0, ""),
    ]


def test_bytes_of_dram_stand_beside_the_least_of_the_task() -> None:
    figures = {m.DRAM_READ: 300.0, m.DRAM_WRITE: 100.0, m.LOADS: 7.0}
    moved = [Metric(name=n, value=v, unit="byte", words="") for n, v in figures.items()]
    (over,) = m.over_least(moved, 200.0)
    assert (over.name, over.value) == (m.OVER_LEAST, 2.0) and over.name in m.KNOWN
    assert m.over_least(moved[2:], 200.0) == []


@pytest.mark.gpu
def test_a_real_profile_has_all_metrics_and_a_place_under_the_roof() -> None:
    with Judge(TASK, pick_device("cuda")) as judge:
        profile = judge.profile(judge.baseline)
    assert isinstance(profile, Profile) and profile.basis == "measured"
    assert {metric.name for metric in profile.metrics} >= set(m.WORDS), "ncu knows every name"
    assert profile.metric("roofline_reached") and "wait for" in profile.why
