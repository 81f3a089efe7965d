"""How long a GPU would take: a few throughputs and one latency, from counters of the real code.

Each term is the time of one unit if nothing else cost anything. On an SM, waiting for loads adds to
computing, which takes as long as its slowest unit; SMs, DRAM, L2 and the start of blocks overlap (a
p-norm); the launch, and the first blocks' first round, which nothing hides, are added.

Four constants are fitted: see tests/tools/virtual_gpu/calibration, which says to what, and what was
held out. Checked on an H200 only, on streaming, reducing, transposing and arithmetic kernels: no
tensor cores, few atomics, little divergence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.virtual_gpu.limits import blocks_per_sm
from astra_chat.tools.virtual_gpu.specs import GpuSpec
from astra_chat.tools.virtual_gpu.types import SECTOR_BYTES, WARP_LANES, LaunchReport

ERROR = 0.30
"""Half width of the error bar. Of the calibration's points, 94 % lie within it."""
RESOLUTION = 0.10
"""Estimates closer than this are a tie."""

CHAIN_CYCLES = {
    "int": 4.2, "float": 4.2, "half": 4.2, "global": 4.2, "move": 0.0, "control": 8.4,
    "convert": 8.4, "special": 21.0, "shuffle": 26.0, "shared": 29.0, "barrier": 34.0,
    "atomic": 287.0,
}  # fmt: skip
"""From one instruction to the next that needs its result, by class of Counters.warp_instructions.
Measured on an H200: fused multiply-add, shared load, shuffle, exponential (two instructions),
barrier of ten warps; an atomic is taken for a load from L2; a move is free, ptxas drops it."""
L1_LATENCY_CYCLES = 43.0
"""Measured on an H200."""


@dataclass(frozen=True)
class Constants:
    """What no counter tells."""

    overlap: float = 3.085
    """Exponent of the p-norm: 1 adds the terms, infinity takes the largest."""
    chain: float = 1.326
    """Time of a warp's instructions, if each waited for the one before, over CHAIN_CYCLES."""
    load: float = 1.2
    """Wait for a load, over the latency that a pointer chase shows."""
    first_round: float = 1.42
    """What nothing hides at a launch's start and end, in rounds of loads and what follows them."""


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
    """Blocks that an SM holds at once."""
    share: int
    """Blocks that the busiest SM runs in all."""
    scale: float
    """Blocks of the grid for each block that ran."""

    @property
    def turns(self) -> float:
        """Blocks that follow each other where one is resident."""
        return max(1.0, self.share / self.per_sm)


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
    terms = _throughputs(report, shape, spec)
    wait, chain = _warp_us(report, spec, constants)
    dispatch = blocks * spec.block_dispatch_ns * 1e-3
    computing = max(chain * shape.turns, *(terms[unit] for unit in _SM_UNITS))
    rounds = max(1, report.counters.dependent_load_rounds)
    first = constants.first_round * (wait + chain) / rounds
    sm = max(wait * shape.turns + computing - first, 0.0)
    power = constants.overlap
    overlapping = (sm, terms["dram"], terms["l2"], dispatch)
    us = spec.launch_floor_us + first + sum(t**power for t in overlapping) ** (1 / power)
    terms["latency"] = (wait + chain) * shape.turns
    terms["launch"] = spec.launch_floor_us + dispatch
    limiter = max(terms, key=lambda name: terms[name])
    occupancy = per_sm * warps * WARP_LANES / spec.threads_per_sm
    waves = blocks / (shape.per_sm * spec.sms)
    sampled = f"{report.blocks_run} of {blocks} blocks" if report.sampled else ""
    why = _why(report, shape, terms, limiter, occupancy, waves)
    return _with_bar(us, terms, limiter, occupancy, waves, why, sampled)


_SM_UNITS = ("issue", "special_functions", "lsu", "shared")


def _throughputs(report: LaunchReport, shape: _Shape, spec: GpuSpec) -> dict[str, float]:
    counters = report.counters
    # Of the busiest SM: per block, times its blocks.
    sm_us = shape.share / max(report.blocks_run, 1) / spec.clocks_per_us
    classes = counters.warp_instructions
    issue_cycles = max(
        (sum(classes.values()) - classes["move"]) / spec.schedulers_per_sm,
        classes["int"] * WARP_LANES / spec.int_lanes,
        classes["float"] * WARP_LANES / spec.fp32_lanes,
        classes["half"] * WARP_LANES / spec.half_lanes,
        classes["convert"] * WARP_LANES / spec.convert_lanes,
    )
    sectors = counters.global_load_sectors + counters.global_store_sectors
    requests = counters.global_load_requests + counters.global_store_requests
    moved = sectors * SECTOR_BYTES
    unique = counters.unique_load_sectors + counters.unique_store_sectors
    dram_bytes_per_us = spec.dram_bytes_per_s * spec.dram_reachable * 1e-6
    return {
        "dram": unique * SECTOR_BYTES * shape.scale / dram_bytes_per_us,
        "l2": moved * shape.scale / (spec.l2_bytes_per_s * 1e-6),
        "issue": issue_cycles * sm_us,
        "special_functions": classes["special"] * WARP_LANES / spec.special_lanes * sm_us,
        "lsu": max(requests, moved / spec.l2_bytes_per_clock) * sm_us,
        "shared": counters.shared_wavefronts * sm_us,
    }


def _warp_us(report: LaunchReport, spec: GpuSpec, constants: Constants) -> tuple[float, float]:
    """Of the longest warp of a block alone: waiting for loads, and its instructions in a chain.

    A sector that is loaded again is taken to come from L1, as in kernels that go twice over a row.
    """
    counters = report.counters
    classes = counters.warp_instructions
    cycles = sum(number * CHAIN_CYCLES[kind] for kind, number in classes.items())
    mean_cycles = cycles / max(1, sum(classes.values()))
    chain = constants.chain * mean_cycles * counters.critical_path_instructions
    fresh = min(1.0, counters.unique_load_sectors / max(1, counters.global_load_sectors))
    load_cycles = fresh * spec.dram_latency_cycles + (1 - fresh) * L1_LATENCY_CYCLES
    wait = constants.load * load_cycles * counters.dependent_load_rounds
    return wait / spec.clocks_per_us, chain / spec.clocks_per_us


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
    turns = f", in {shape.turns:.3g} turns" if shape.turns > 1 else ""
    loads, stores = max(1, c.global_load_requests), max(1, c.global_store_requests)
    words = {
        "dram": f"{(c.unique_load_sectors + c.unique_store_sectors) * 32e-6 * shape.scale:.2f} MB"
        f" to and from DRAM take {us}",
        "l2": f"{c.global_load_sectors / loads:.1f} sectors a load and"
        f" {c.global_store_sectors / stores:.1f} a store request through L2 take {us}",
        "issue": f"{instructions:.3g} warp instructions take {us} of issue slots",
        "special_functions": f"{c.warp_instructions['special'] * shape.scale:.3g} special-function"
        f" instructions take {us}",
        "lsu": f"{(loads + stores) * shape.scale:.3g} global requests of"
        f" {c.global_load_bytes / loads:.0f} bytes a load take {us} of the load/store units",
        "shared": f"{c.shared_wavefronts / max(1, c.shared_requests):.1f} wavefronts a"
        f" shared-memory request (1 is free of conflicts) take {us}",
        "latency": f"a warp waits for {c.dependent_load_rounds} loads one after the other and runs"
        f" {c.critical_path_instructions} instructions{turns}: {us}",
        "launch": f"starting {shape.blocks} blocks takes {us}",
    }[limiter]
    return f"{words}; {waves:.2g} waves, {shape.per_sm} blocks of {shape.warps} warps an SM" + (
        f" ({occupancy:.0%} of its warps)"
    )
