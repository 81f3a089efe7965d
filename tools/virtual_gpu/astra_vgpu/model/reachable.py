"""The floor of a task on a case by the model: what copying the task's least bytes would take."""

from __future__ import annotations

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.model.constants import FITTED, Constants
from astra_vgpu.model.launch_price import second_launch_us
from astra_vgpu.model.time_split import parts_of_norm

COPY_CHAIN_CYCLES = 118
"""Longest chain of results of a kernel that copies one 16-byte vector a thread behind a test of its
bound, built for sm_90: most of it reads special registers and constants."""


def reachable_us(
    least_bytes: float, peak_us: float, spec: GpuSpec, *, rounds: int, constants: Constants = FITTED
) -> float:
    """One launch with nothing in L2, the start of blocks of one warp, `rounds` of loads (0 to 2: a
    second where an address has to be loaded), a copy's few instructions, the least bytes at the
    bandwidth that a streaming kernel reaches. `peak_us`: the physical limit, which an operation
    count may set."""
    fixed = second_launch_us(spec, constants) + constants.cold_us
    load = constants.load * spec.dram_latency_cycles
    chain = constants.chain * COPY_CHAIN_CYCLES + constants.start
    first = constants.first_round * (load * min(rounds, 1) + chain / max(rounds, 1))
    if rounds > 1:
        first += constants.phases * (1 - 1 / rounds) * (load * rounds + chain)
    warp = (load * rounds + chain) / spec.clocks_per_us
    moved = least_bytes / (spec.dram_bytes_per_s * spec.dram_reachable) * 1e6
    work = max(moved, peak_us - spec.launch_floor_us)
    at_first = first / spec.clocks_per_us
    overlapped = parts_of_norm(constants.overlap, {"warp": warp - at_first, "work": work})
    return fixed + at_first + sum(overlapped.values())
