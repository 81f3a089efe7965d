"""The price of one more launch in a call: what it takes beside its own work.

The prompts (tools/report/metrics.md, metrics_measured.md) and docs/reference.md say this number;
a test holds them against it.
"""

from __future__ import annotations

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.model.constants import FITTED, Constants
from astra_vgpu.model.ratio_interval import JUDGED_LAUNCH_US


def second_launch_us(spec: GpuSpec, constants: Constants = FITTED) -> float:
    """Returns the us that a further kernel launch, memset or copy of a call adds, without the time
    of its blocks and bytes: an empty kernel in a CUDA graph, its first access to memory, and what
    the judge's clock adds to each launch."""
    return spec.launch_floor_us + constants.ramp_us + JUDGED_LAUNCH_US
