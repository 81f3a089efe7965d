"""The estimate against times that an H200 took (lab/virtual_gpu/), and against plain physics."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from astra_vgpu.ground.gpu_specs import SPECS, limit_us, spec
from astra_vgpu.launch.sampling import LONGEST
from astra_vgpu.model.constants import CONSTANT_WORD_CYCLES
from astra_vgpu.model.estimate import Estimate, estimate
from astra_vgpu.types import Counters, Dim3, Launch, LaunchReport
from lab.virtual_gpu.calibration import calibrate

H200 = spec("h200")


POINTS = calibrate.points()


def point(label: str) -> calibrate.CalibrationPoint:
    return next(p for p in POINTS if p.label == label)


LIMITERS = {
    "special 8192x4096 f16": "special_functions",
    "multiply_add 8192x4096 f16": "issue",
    "transpose_conflicts 8192x4096 f16": "shared",
    "silu_vec 8192x4096 f16": "dram",
    "silu_scalar_128 16x4096 f16": "latency",
}


@pytest.mark.parametrize("label", LIMITERS)
def test_the_limiter_is_what_the_kernel_was_written_for(label: str) -> None:
    found = estimate(point(label).reports, point(label).resources, H200)
    assert found.limiter == LIMITERS[label]
    others = {name: us for name, us in found.terms.items() if name != "block_start"}
    assert found.terms[found.limiter] == max(others.values())


def test_the_parts_of_every_estimate_add_up_to_it() -> None:
    for p in calibrate.every_point():
        found = estimate(p.reports, p.resources, H200)
        assert sum(found.split.values()) == pytest.approx(found.us, rel=1e-9)
        assert min(found.split.values()) >= 0


def test_the_largest_part_is_what_the_kernel_was_written_for() -> None:
    def largest(label: str) -> str:
        split = estimate(point(label).reports, point(label).resources, H200).split
        return max(split, key=lambda part: split[part])

    assert largest("special 8192x4096 f16") == largest("multiply_add 8192x4096 f16")
    assert largest("multiply_add 8192x4096 f16") == "instructions"
    assert largest("silu_vec 8192x4096 f16") == "bytes"
    assert largest("silu_scalar_128 16x4096 f16") == "waits"


def test_what_every_launch_takes_is_no_limiter() -> None:
    few = point("silu_vec 16x4096 f16")
    found = estimate(few.reports, few.resources, H200)
    assert found.terms["block_start"] > H200.launch_floor_us and found.limiter == "latency"


def test_why_gives_the_counters_behind_it() -> None:
    def why(label: str) -> str:
        return estimate(point(label).reports, point(label).resources, H200).why

    assert "16.5 wavefronts a shared-memory request" in why("transpose_conflicts 8192x4096 f16")
    assert "waits for 32 loads one after the other" in why("silu_scalar_128 16x4096 f16")
    assert "201.33 MB to and from DRAM" in why("silu_vec 8192x4096 f16")


def test_the_longest_warp_and_the_busiest_sm_are_told_of_the_longest_launch() -> None:
    p = point("rms_vec 1024x4096 f16")
    one, two = (estimate(p.reports * times, p.resources, H200) for times in (1, 2))
    counters, warps = p.reports[0].counters, p.reports[0].launch.block.warps
    assert one.machine_instructions > 0 and one.chain_cycles >= counters.critical_path_cycles
    assert one.warps_held % warps == 0 and 0 < one.warps_held <= 64
    assert f"the busiest SM holds {one.warps_held // warps} of the " in one.why
    for name in ("machine_instructions", "chain_cycles", "warps_held", "turns", "load_rounds"):
        assert getattr(two, name) == getattr(one, name)


def test_a_sampled_launch_says_so_and_scales() -> None:
    sampled = point("silu_vec 8192x4096 f16")
    found = estimate(sampled.reports, sampled.resources, H200)
    ran = sampled.reports[0].blocks_run
    assert ran < 8192 and found.sampled == f"{ran} of 8192 blocks"
    whole = estimate([_scaled(sampled.reports[0], 8192 / ran)], sampled.resources, H200)
    assert whole.us == pytest.approx(found.us, rel=0.01) and whole.sampled == ""


def _scaled(report: LaunchReport, factor: float) -> LaunchReport:
    """The report as if every block had run and been like those that did."""
    c = report.counters
    scaled = {
        name: round(value * factor)
        for name, value in vars(c).items()
        if isinstance(value, int) and name not in LONGEST
    }
    classes = Counter({k: round(v * factor) for k, v in c.warp_instructions.items()})
    counters = replace(c, warp_instructions=classes, **scaled)
    return LaunchReport(report.launch, report.launch.grid.count, counters)


def test_launches_of_a_call_follow_each_other() -> None:
    p = point("rms_vec 1024x4096 f16")
    one = estimate(p.reports, p.resources, H200)
    two = estimate(p.reports * 2, p.resources, H200)
    again = estimate(p.reports, p.resources, H200, warm=True)
    assert again.us < one.us, "it finds in L2 what the first has left"
    assert two.us == pytest.approx(one.us + again.us)
    assert two.terms == pytest.approx({k: v + again.terms[k] for k, v in one.terms.items()})
    assert two.why.startswith("2 launches")
    assert two.store_packets == 2 * one.store_packets > 0


def test_what_a_warp_sleeps_passes_once_for_each_of_its_turns() -> None:
    p = point("rms_vec 1024x4096 f16")
    awake = estimate(p.reports, p.resources, H200)
    counters = replace(p.reports[0].counters, critical_path_sleep_ns=1_000_000)
    found = estimate([replace(p.reports[0], counters=counters)], p.resources, H200)
    assert 1000 + 0.5 * awake.us < found.us < 2.5 * 1000 + awake.us
    assert found.limiter == "latency" and "sleeps 1e+03 us" in found.why


def test_a_call_without_launch_costs_nothing_to_divide_by_zero_with() -> None:
    found = estimate([], {}, H200)
    assert found.us == H200.launch_floor_us and found.limiter == "block_start"
    assert found.split["fixed"] == found.us == sum(found.split.values())


def test_an_empty_kernel_costs_the_floor_and_its_blocks() -> None:
    """Measured: 0.50 us for one block, 5.4 us for 8192, 79 us for 131072."""

    def us(blocks: int) -> float:
        counters = Counters(Counter({"control": blocks}), critical_path_instructions=1)
        launch = Launch("k", Dim3(blocks), Dim3(32), 0, b"")
        return estimate([LaunchReport(launch, blocks, counters)], {"k": (8, 0)}, H200).us

    assert us(1) == pytest.approx(0.50, rel=0.1)
    assert us(8192) == pytest.approx(5.4, rel=0.1)
    assert us(131072) == pytest.approx(79, rel=0.1)


def test_a_slower_gpu_takes_longer() -> None:
    p = point("silu_vec 8192x4096 f16")
    times = {key: estimate(p.reports, p.resources, s).us for key, s in SPECS.items()}
    assert times["h200"] < times["h100"] < times["a100"] < times["rtx4090"] < times["l40s"]
    ratio = H200.dram_bytes_per_s / spec("h100").dram_bytes_per_s
    assert times["h100"] / times["h200"] == pytest.approx(ratio, rel=0.15)


def test_the_limit_is_the_largest_of_bandwidth_peak_and_launch() -> None:
    assert limit_us(4.8e9, 0, H200) == pytest.approx(1000)
    assert limit_us(0, 66.9e9, H200) == pytest.approx(1000)
    assert limit_us(1000, 1000, H200) == H200.launch_floor_us


def test_no_measured_time_is_below_the_limit() -> None:
    for p in POINTS:
        moved = sum(
            (r.counters.unique_load_sectors + r.counters.unique_store_sectors) * 32
            for r in p.reports
        )
        assert limit_us(moved, 0, H200) < p.cold_us


def test_different_words_of_constant_loads_cost_their_turns() -> None:
    """Loads whose lanes want one word cost nothing more; each further word costs its cycles."""
    p = point("silu_vec 8192x4096 f16")
    report = p.reports[0]
    warps = report.blocks_run * report.launch.block.warps

    def with_words(each: int) -> Estimate:
        counters = replace(
            report.counters,
            constant_load_requests=24 * warps,
            constant_load_words=24 * warps * each,
            critical_path_constant_words=24 * (each - 1),
        )
        return estimate([replace(report, counters=counters)], p.resources, H200)

    plain = estimate(p.reports, p.resources, H200)
    assert with_words(1).us == plain.us and with_words(1).terms["constants"] == 0
    assert plain.us < with_words(4).us < with_words(32).us
    worst = with_words(32)
    assert worst.limiter == "constants" and "32.0 different words a load of constants" in worst.why
    cycles = CONSTANT_WORD_CYCLES * 24 * 31
    assert worst.chain_cycles == pytest.approx(plain.chain_cycles + cycles)
    assert worst.us > 3 * plain.us
