"""Bottleneck, roofline and stall reasons by the stated rules, on figures that an H200 gave."""

from __future__ import annotations

from collections import Counter

import pytest

from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.types import Metric
from astra_chat.tools.virtual_gpu.adapter import Counters, Dim3, estimate
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.types import Launch, LaunchReport

H200 = spec("h200")
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
LARGE = {
    m.TIME: 51456.0,
    m.DRAM: 86.75,
    m.L2: 92.16,
    m.L1: 23.61,
    m.ISSUE: 30.56,
    m.SPECIAL: 37.78,
    m.DRAM_READ: 155199744.0,
    m.DRAM_WRITE: 59409152.0,
    m.LOADS: 303104.0,
    m.LOAD_SECTORS: 16.0,
    "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 38797312.0,
    "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum": 116391936.0,
    STALL.format("long_scoreboard"): 31.54,
    STALL.format("wait"): 1.58,
    STALL.format("mio_throttle"): 1.23,
    STALL.format("barrier"): 0.0,
}
"""silu_and_mul, 2048x18944 bfloat16, under Nsight Compute on an NVIDIA H200."""


def reading(**changed: float) -> m.Reading:
    names = {
        "dram": m.DRAM,
        "l2": m.L2,
        "l1": m.L1,
        "issue": m.ISSUE,
        "special": m.SPECIAL,
        "time": m.TIME,
        "shared": m.SHARED_WAVEFRONTS,
    }
    figures = LARGE | {names[key]: value for key, value in changed.items()}
    return m.read({n: Metric(name=n, value=v, unit="", words="") for n, v in figures.items()}, H200)


@pytest.mark.parametrize(
    ("changed", "bottleneck"),
    [
        ({}, "dram"),
        ({"dram": 61.0, "l2": 92.0}, "l2"),
        ({"dram": 20.0, "l2": 30.0, "issue": 88.0}, "issue"),
        ({"dram": 20.0, "l2": 30.0, "special": 75.0}, "special_functions"),
        ({"dram": 20.0, "l2": 30.0, "l1": 80.0}, "lsu"),
        ({"dram": 20.0, "l2": 30.0, "l1": 80.0, "shared": 9e6}, "shared"),
        ({"dram": 20.0, "l2": 30.0}, "latency"),
        ({"dram": 1.0, "l2": 2.0, "time": 900.0}, "block_start"),
    ],
)
def test_the_rules(changed: dict[str, float], bottleneck: str) -> None:
    assert reading(**changed).bottleneck == bottleneck


def test_the_roofline_position() -> None:
    derived = {metric.name: metric.value for metric in reading().derived}
    flops, moved = 38797312 + 116391936, 155199744 + 59409152
    assert derived["roofline_intensity"] == pytest.approx(flops / moved)
    assert derived["roofline_ridge"] == pytest.approx(66.9e12 / 4.8e12)
    assert derived["roofline_attainable"] == pytest.approx(4.8e3 * flops / moved)
    reached = 100 * (flops / 51456e-9) / (4.8e12 * flops / moved)
    assert derived["roofline_reached"] == pytest.approx(reached) and 85 < reached < 88


def test_a_kernel_without_float_operations_has_no_place_under_the_roof() -> None:
    bare = {
        n: Metric(name=n, value=v, unit="", words="") for n, v in LARGE.items() if "_op_f" not in n
    }
    assert not [metric for metric in m.read(bare, H200).derived if "roofline" in metric.name]


def test_stalls_are_shares_of_a_warps_cycles_the_largest_first() -> None:
    found = reading()
    stalls = [metric for metric in found.derived if "stalled" in metric.name]
    assert [s.words.partition("waiting for ")[2] for s in stalls] == [
        m.STALLS["long_scoreboard"],
        m.STALLS["wait"],
        m.STALLS["mio_throttle"],
    ]
    assert stalls[0].value == pytest.approx(100 * 31.54 / (31.54 + 1.58 + 1.23 + 1))
    assert "spent waiting for a load from global or local memory" in found.why


def test_a_prompt_sees_the_key_metrics_and_what_follows_from_them() -> None:
    raw = [Metric(name=n, value=1.0, unit="", words=w) for n, w in m.WORDS.items()]
    own = Metric(name="barriers", value=3.0, unit="", words="")
    shown = m.telling([*raw, *reading().derived, own])
    assert len(raw) > 40 and len(shown) <= 26
    assert {m.TIME, m.DRAM, "roofline_reached", "barriers"} <= {metric.name for metric in shown}


def test_every_derived_name_and_every_bottleneck_is_known() -> None:
    found = reading()
    assert {metric.name for metric in found.derived} - set(m.WORDS) <= m.KNOWN
    assert {f"roofline_{part}" for part in ("intensity", "ridge")} <= m.KNOWN
    assert found.bottleneck in m.BOTTLENECKS


def test_a_bottleneck_is_whatever_limits_an_estimate() -> None:
    counters = Counters(Counter({"control": 1}), critical_path_instructions=1)
    report = LaunchReport(Launch("k", Dim3(1), Dim3(32), 0, b""), 1, counters)
    assert set(estimate([report], {"k": (8, 0)}, spec("h200")).terms) <= set(m.BOTTLENECKS)
