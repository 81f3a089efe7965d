"""The floor of a task on a case by the model: what a kernel without any waste would take."""

from __future__ import annotations

from astra_chat.tools.gpu_specs import GpuSpec
from astra_chat.tools.virtual_gpu.model.constants import FITTED, Constants
from astra_chat.tools.virtual_gpu.model.ratio_interval import JUDGED_LAUNCH_US


def reachable_us(
    least_bytes: float, peak_us: float, spec: GpuSpec, *, reads: bool, constants: Constants = FITTED
) -> float:
    """One launch with nothing in L2, one round of loads, the least bytes at the bandwidth that a
    streaming kernel reaches. `peak_us`: the physical limit, which an operation count may set."""
    fixed = spec.launch_floor_us + constants.ramp_us + constants.cold_us + JUDGED_LAUNCH_US
    load = constants.load * spec.dram_latency_cycles / spec.clocks_per_us
    moved = least_bytes / (spec.dram_bytes_per_s * spec.dram_reachable) * 1e6
    work = max(moved, peak_us - spec.launch_floor_us)
    return fixed + (constants.first_round * load if reads else 0.0) + work
