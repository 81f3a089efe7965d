"""What a launch's time goes to, as text; test_estimate.py has more, on measured kernels."""

from __future__ import annotations

from collections import Counter

from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.model.bottleneck import limited_by
from astra_vgpu.model.traffic import traffic
from astra_vgpu.types import Counters, Dim3, Launch, LaunchReport


def words(counters: Counters, limiter: str) -> str:
    report = LaunchReport(Launch("kernel", Dim3(40), Dim3(128), 0, b""), 20, counters)
    moved = traffic(report, spec("h200"), 1, 0, 0.0)
    return limited_by(report, moved, {limiter: 2.5}, limiter, 3.0)


def test_instructions_of_the_machine_are_told_where_they_are_known() -> None:
    guessed = Counters(warp_instructions=Counter({"int": 50}))
    known = Counters(
        warp_instructions=Counter({"int": 50}), machine_instructions=Counter({"alu": 60, "fma": 1})
    )
    assert words(guessed, "issue") == "100 warp instructions take 2.50 us alone of issue slots"
    assert words(known, "issue") == "122 warp instructions take 2.50 us alone of issue slots"


def test_a_wait_tells_how_often_it_passes() -> None:
    waits = Counters(
        dependent_load_rounds=4,
        critical_path_instructions=70,
        issue_tenths=2000,
        warp_instructions=Counter({"int": 280}),
        machine_instructions=Counter({"alu": 200}),
    )
    told = (
        "a warp waits for 4 loads one after the other and runs 50 machine instructions, in 3 turns"
    )
    assert words(waits, "latency") == f"{told}: 2.50 us alone"
    assert words(Counters(), "block_start") == "starting 40 blocks takes 2.50 us alone"
