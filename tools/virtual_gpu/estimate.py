"""How long a GPU would take: a few throughputs and one latency, from counters of the real code.

Each term is the time of one unit if all else cost nothing. What overlaps is joined by a p-norm; the
launch itself is added. ERROR and the constants below come from tests/tools/virtual_gpu/calibration,
which says which measurements they were fitted to and which were held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.virtual_gpu.limits import blocks_per_sm
from astra_chat.tools.virtual_gpu.specs import GpuSpec
from astra_chat.tools.virtual_gpu.types import SECTOR_BYTES, WARP_LANES, LaunchReport

ERROR = 0.30
"""Half width of the error bar: nine of ten calibration points lie within it."""
RESOLUTION = 0.10
"""Estimates closer than this are a tie."""


@dataclass(frozen=True)
class Constants:
    """What no counter tells. Fitted; see the module's docstring."""

    overlap: float = 1.5
    """Exponent of the p-norm: 1 adds the terms, infinity takes the largest."""
    cycles_per_instruction: float = 4.5
    """Of a warp alone: the wait for the instruction before."""
    load_cycles: float = 1.0
    """A dependent global load, over the latency that a pointer chase shows."""
    sass_per_ptx: float = 1.0
    """Machine instructions for each PTX instruction."""


FITTED = Constants()

Resources = Mapping[str, Sequence[int]]
"""Registers and static shared bytes by kernel."""


@dataclass(frozen=True)
class Estimate:
    """Time of one call, in us, with what it is made of."""

    us: float
    low_us: float
    high_us: float
    terms: dict[str, float]
    """us by unit: dram, l2, issue, special_functions, lsu, shared, latency, launch."""
    limiter: str
    """The largest term."""
    occupancy: float
    """Warps that an SM holds, of those it could; of the longest launch."""
    waves: float
    why: str
    sampled: str
    """"" or how many blocks were run."""


@dataclass(frozen=True)
class _Shape:
    """How a launch lies on the GPU."""

    blocks: int
    warps: int
    """A block."""
    per_sm: int
    share: int
    """Blocks that the busiest SM runs in all."""
    scale: float
    """Blocks of the grid for each block that ran."""


def estimate(
    reports: Sequence[LaunchReport],
    resources: Resources,
    spec: GpuSpec,
    constants: Constants = FITTED,
) -> Estimate:
    """Estimated device time of the launches of one call, one after the other, L2 cold."""
    if not reports:
        floor = spec.launch_floor_us
        return _with_bar(floor, {"launch": floor}, "launch", 0.0, 0.0, "nothing was launched", "")
    single = [_launch(report, resources, spec, constants) for report in reports]
    terms = {name: sum(e.terms[name] for e in single) for name in single[0].terms}
    longest = max(single, key=lambda e: e.us)
    why = longest.why
    if len(single) > 1:
        why = f"{len(single)} launches, of the longest: {why}"
    return _with_bar(
        sum(e.us for e in single), terms, max(terms, key=lambda n: terms[n]),
        longest.occupancy, longest.waves, why, longest.sampled,
    )  # fmt: skip


def limit_us(least_bytes: float, flops: float, spec: GpuSpec) -> float:
    """The time below which no kernel can be that moves these bytes and does these operations."""
    return max(
        least_bytes / spec.dram_bytes_per_s * 1e6, flops / spec.fp32_flops * 1e6,
        spec.launch_floor_us,
    )  # fmt: skip


def _with_bar(
    us: float, terms: dict[str, float], limiter: str, occupancy: float, waves: float, why: str,
    sampled: str,
) -> Estimate:  # fmt: skip
    return Estimate(
        us, us * (1 - ERROR), us * (1 + ERROR), terms, limiter, occupancy, waves, why, sampled
    )


def _launch(
    report: LaunchReport, resources: Resources, spec: GpuSpec, constants: Constants
) -> Estimate:
    launch = report.launch
    registers, static = resources[launch.kernel]
    warps = -(-launch.block.count // WARP_LANES)
    per_sm = blocks_per_sm(
        spec, registers=registers, shared_bytes=static + launch.dynamic_shared_bytes,
        threads=launch.block.count,
    )  # fmt: skip
    blocks = launch.grid.count
    shape = _Shape(
        blocks=blocks, warps=warps, per_sm=max(per_sm, 1), share=-(-blocks // spec.sms),
        scale=blocks / max(report.blocks_run, 1),
    )  # fmt: skip
    terms = _throughputs(report, shape, spec, constants)
    terms["latency"] = _latency(report, shape, spec, constants)
    dispatch = blocks * spec.block_dispatch_ns * 1e-3
    overlapping = [*terms.values(), dispatch]
    power = constants.overlap
    us = spec.launch_floor_us + sum(t**power for t in overlapping) ** (1 / power)
    terms["launch"] = spec.launch_floor_us + dispatch
    limiter = max(terms, key=lambda name: terms[name])
    occupancy = per_sm * warps * WARP_LANES / spec.threads_per_sm
    waves = blocks / (shape.per_sm * spec.sms)
    sampled = f"{report.blocks_run} of {blocks} blocks" if report.sampled else ""
    why = _why(report, shape, terms, limiter, occupancy, waves)
    return _with_bar(us, terms, limiter, occupancy, waves, why, sampled)


def _throughputs(
    report: LaunchReport, shape: _Shape, spec: GpuSpec, constants: Constants
) -> dict[str, float]:
    counters = report.counters
    # Of the busiest SM: per block, times its blocks.
    sm_us = shape.share / max(report.blocks_run, 1) / spec.clocks_per_us
    classes = counters.warp_instructions
    lanes = WARP_LANES
    issued = sum(classes.values()) * constants.sass_per_ptx / spec.schedulers_per_sm
    arithmetic = max(
        classes["int"] * lanes / spec.int_lanes,
        classes["float"] * lanes / spec.fp32_lanes,
        classes["half"] * lanes / spec.half_lanes,
    )
    special = (
        classes["special"] * lanes / spec.special_lanes
        + classes["convert"] * lanes / spec.convert_lanes
    )
    sectors = counters.global_load_sectors + counters.global_store_sectors
    requests = counters.global_load_requests + counters.global_store_requests
    fetched = sectors * SECTOR_BYTES
    unique = counters.unique_load_sectors + counters.unique_store_sectors
    lsu = max(requests, fetched / spec.l2_bytes_per_clock)
    dram_us = 1e6 / (spec.dram_bytes_per_s * spec.dram_reachable)
    return {
        "dram": unique * SECTOR_BYTES * shape.scale * dram_us,
        "l2": fetched * shape.scale * 1e6 / spec.l2_bytes_per_s,
        "issue": max(issued, arithmetic) * sm_us,
        "special_functions": special * sm_us,
        "lsu": lsu * sm_us,
        "shared": counters.shared_wavefronts * sm_us,
    }


def _latency(report: LaunchReport, shape: _Shape, spec: GpuSpec, constants: Constants) -> float:
    """The longest warp's own way through a block, times the blocks that follow each other."""
    counters = report.counters
    loads = max(1, counters.global_load_sectors)
    cold = min(1.0, counters.unique_load_sectors / loads)
    load_cycles = constants.load_cycles * (
        cold * spec.dram_latency_cycles + (1 - cold) * spec.l2_latency_cycles
    )
    cycles = (
        counters.critical_path_instructions * constants.cycles_per_instruction
        + counters.dependent_load_rounds * load_cycles
    )
    rounds = max(1.0, shape.share / shape.per_sm)
    return rounds * cycles / spec.clocks_per_us


def _why(
    report: LaunchReport,
    shape: _Shape,
    terms: Mapping[str, float],
    limiter: str,
    occupancy: float,
    waves: float,
) -> str:
    c = report.counters
    us = f"{terms[limiter]:.2f} us"
    instructions = sum(c.warp_instructions.values()) * shape.scale
    loads, stores = max(1, c.global_load_requests), max(1, c.global_store_requests)
    words = {
        "dram": f"{(c.unique_load_sectors + c.unique_store_sectors) * 32e-6 * shape.scale:.2f} MB"
        f" to and from DRAM take {us}",
        "l2": f"{c.global_load_sectors / loads:.1f} sectors a load and"
        f" {c.global_store_sectors / stores:.1f} a store request through L2 take {us}",
        "issue": f"{instructions:.3g} warp instructions take {us} of issue slots",
        "special_functions": f"{c.warp_instructions['special'] * shape.scale:.3g} special-function"
        f" and {c.warp_instructions['convert'] * shape.scale:.3g} conversion instructions take {us}",
        "lsu": f"{(loads + stores) * shape.scale:.3g} global requests of"
        f" {c.global_load_bytes / loads:.0f} bytes a load take {us} of the load/store units",
        "shared": f"{c.shared_wavefronts / max(1, c.shared_requests):.1f} wavefronts a"
        f" shared-memory request (1 is free of conflicts) take {us}",
        "latency": f"a warp waits for {c.dependent_load_rounds} loads one after the other and runs"
        f" {c.critical_path_instructions} instructions: {us}",
        "launch": f"starting {shape.blocks} blocks takes {us}",
    }[limiter]
    return f"{words}; {waves:.2f} waves, {shape.per_sm} blocks of {shape.warps} warps an SM" + (
        f" ({occupancy:.0%} of its warps)"
    )
