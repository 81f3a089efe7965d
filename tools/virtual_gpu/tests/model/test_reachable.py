"""The floor of a task on a case, against what the model says of kernels that reach it or not."""

from __future__ import annotations

import pytest

from astra_vgpu.ground.gpu_specs import limit_us, spec
from astra_vgpu.model.constants import FITTED
from astra_vgpu.model.ratio_interval import JUDGED_LAUNCH_US
from astra_vgpu.model.reachable import COPY_CHAIN_CYCLES, reachable_us

H200 = spec("h200")


def floor(least_bytes: float, flops: float = 0.0, *, rounds: int = 1) -> float:
    return reachable_us(least_bytes, limit_us(least_bytes, flops, H200), H200, rounds=rounds)


def test_it_lies_above_the_physical_limit_and_grows_with_the_bytes() -> None:
    for size in (1e3, 1e6, 1e9):
        assert floor(size) > limit_us(size, 0, H200)
    assert floor(2e9) - floor(1e9) == pytest.approx(1e9 / (4.8e12 * 0.91) * 1e6)


def test_a_kernel_that_reads_nothing_waits_for_nothing() -> None:
    assert floor(1e6, rounds=0) < floor(1e6) - 0.2


def test_it_is_what_a_copy_takes() -> None:
    """A copy: 118 cycles of a warp, one round of loads, one block."""
    clock = H200.clocks_per_us
    warp = (FITTED.load * 665 + FITTED.chain * COPY_CHAIN_CYCLES + FITTED.start) / clock
    fixed = H200.launch_floor_us + FITTED.ramp_us + FITTED.cold_us + JUDGED_LAUNCH_US
    assert floor(1.0) == pytest.approx(fixed + warp, abs=1e-3)
    more = COPY_CHAIN_CYCLES * FITTED.chain / clock
    assert floor(1.0, rounds=0) == pytest.approx(fixed + more + FITTED.start / clock, abs=1e-3)


def test_operations_may_set_it() -> None:
    assert floor(1e3, flops=66.9e9) > 1000 > floor(1e3)


def test_an_index_that_has_to_be_loaded_first_costs_a_round() -> None:
    round_us = FITTED.load * H200.dram_latency_cycles / H200.clocks_per_us
    assert round_us * 0.9 < floor(1.0, rounds=2) - floor(1.0) < round_us * 1.4
