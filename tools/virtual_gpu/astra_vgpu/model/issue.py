"""Issue slots and arithmetic units of an SM: from its machine code, or estimated from the PTX."""

from __future__ import annotations

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.types import WARP_LANES, Counters

SLOTS = 1.2
"""Machine instructions over issue_tenths where these are guessed from the PTX: of 150 kernels, the
median."""
_PRODUCT_TURNS, _WIDE_TURNS = 2, 4
"""Time of an integer product, and of a wide one, over a float's: half of the lanes can do it, and a
wide one passes twice (an H200: a 64-bit product and what it depends on, 7 cycles of a
scheduler)."""


def issue_cycles(counters: Counters, spec: GpuSpec) -> float:
    """Cycles of an SM for these counters, if it did nothing else: its busiest unit's."""
    units, classes = counters.machine_instructions, counters.warp_instructions
    if units:
        products = units["imad"] + units["imad_wide"]
        floats = max(
            units["fma"] + products,
            _PRODUCT_TURNS * units["imad"] + _WIDE_TURNS * units["imad_wide"],
        )
        halves, converted = units["half"], 0
    else:
        floats, halves, converted = classes["float"], classes["half"], classes["convert"]
    return max(
        machine_instructions(counters) / spec.schedulers_per_sm,
        counters.alu_tenths / 10 * WARP_LANES / spec.int_lanes,
        floats * WARP_LANES / spec.fp32_lanes,
        halves * WARP_LANES / spec.half_lanes,
        converted * WARP_LANES / spec.convert_lanes,
    )


def machine_instructions(counters: Counters) -> float:
    """Warp instructions of the machine: counted where its code is known, else about."""
    return (1.0 if counters.machine_instructions else SLOTS) * counters.issue_tenths / 10


def machine_path(counters: Counters) -> float:
    """Machine instructions of the longest warp alone: by its share of the PTX instructions."""
    total = max(1, sum(counters.warp_instructions.values()))
    return machine_instructions(counters) * counters.critical_path_instructions / total
