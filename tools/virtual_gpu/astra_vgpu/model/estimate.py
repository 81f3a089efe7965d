"""Estimated time of a launch on a GPU, from exact counters and a few throughputs and latencies.

Each term is the time of one unit if nothing else cost anything. Within an SM, a warp's waits for
loads and for its own results overlap with the slowest shared unit. SMs, DRAM, L2 and block starts
overlap too (p-norms). The launch itself, and the first blocks' first round of loads, which nothing
hides, are added.

The constants are fitted to kernels of one mechanism each and to others; see
lab/virtual_gpu/calibration. The error was measured over other kinds of kernels, chosen
before (lab/virtual_gpu/validation, docs/research/estimate.md). Checked on an H200 only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from astra_vgpu.ground.gpu_specs import GpuSpec
from astra_vgpu.model.bottleneck import limited_by
from astra_vgpu.model.constants import (
    AHEAD,
    CONSTANT_WORD_CYCLES,
    CONSTANT_WORD_TURNS,
    FITTED,
    L1_LATENCY_CYCLES,
    L1_SECTORS_PER_TURN,
    L2_NEAR,
    MATCH_CYCLES,
    MATCH_TURNS,
    MEETING_CYCLES,
    MEETING_WARPS,
    PACKETS_PER_CLOCK,
    Constants,
)
from astra_vgpu.model.issue import SLOTS, issue_cycles, machine_path
from astra_vgpu.model.occupancy import blocks_per_sm
from astra_vgpu.model.time_split import PARTS, Span, time_split
from astra_vgpu.model.traffic import Traffic, traffic
from astra_vgpu.types import SECTOR_BYTES, WARP_LANES, Counters, LaunchReport

Resources = Mapping[str, Sequence[int]]  # registers and static shared bytes by kernel


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Time of one call, in us, with what it is made of."""

    us: float
    terms: dict[str, float]
    """us by unit: of _throughputs, latency, block_start."""
    limiter: str
    """The largest term; of block_start without what every launch takes."""
    occupancy: float
    """Warps that an SM holds, of those it could; of the longest launch."""
    waves: float
    why: str
    sampled: str
    """"" or how many blocks were run."""
    store_packets: float = 0.0
    """Packets that L1 hands to L2 for stores (Traffic.store_packets), of all launches."""
    split: dict[str, float] = field(default_factory=dict)
    """us by the names of time_split.PARTS; they add up to `us`."""
    load_rounds: int = 0
    """Loads of a warp that wait for each other, in the longest launch."""
    warp_instructions: int = 0
    """PTX instructions of the longest warp, in the longest launch."""
    machine_instructions: float = 0.0
    """Machine instructions of the longest warp: its time follows these or `chain_cycles`, whichever
    takes longer."""
    chain_cycles: float = 0.0
    """Cycles of the longest warp's longest chain of results that wait for each other."""
    chain_before_load: float = 0.0
    """Part of `chain_cycles` before the warp first waits for global memory."""
    chain_units: dict[str, float] = field(default_factory=dict)
    """`chain_cycles` by unit, where the machine code is known."""
    chain_lines: dict[str, float] = field(default_factory=dict)
    """`chain_cycles` by source line ("kernel.cu:4, inlined at kernel.cu:16")."""
    load_lines: dict[str, float] = field(default_factory=dict)
    """`load_rounds` by the source lines of the load and of what waits for it, with
    debug_lines.WAITED in between; those waited for at mbarriers have no line."""
    warps_held: int = 0
    """Warps that the busiest SM holds at once."""
    turns: float = 0.0
    """Blocks that follow each other where one is resident."""


@dataclass(frozen=True, kw_only=True)
class _Shape:
    """How a launch lies on the GPU."""

    blocks: int
    warps: int
    """Warps of a block."""
    shared_bytes: int
    """Shared memory that a block takes, what the hardware reserves included."""
    per_sm: int
    """Blocks that an SM holds at once."""
    share: int
    """Blocks that the busiest SM runs in all."""
    scale: float
    """Blocks of the grid for each block that ran."""
    occupancy: float
    """Warps that an SM holds, of those it could."""

    @property
    def held(self) -> int:
        """Blocks that the busiest SM holds at once."""
        return min(self.per_sm, self.share)

    @property
    def turns(self) -> float:
        """Blocks that follow each other where one is resident."""
        return max(1.0, self.share / self.per_sm)


@dataclass(frozen=True, kw_only=True)
class _OnGpu:
    """A launch on a GPU: what its time follows from."""

    report: LaunchReport
    shape: _Shape
    moved: Traffic
    spec: GpuSpec
    constants: Constants

    @property
    def counters(self) -> Counters:
        return self.report.counters

    @property
    def dispatch_us(self) -> float:
        return self.shape.blocks * self.spec.block_dispatch_ns * 1e-3


@dataclass(frozen=True, kw_only=True)
class _LongestWarp:
    """Times of the longest warp of a block alone, in us."""

    start: float
    """The start of its block."""
    chain: float
    """Its results that wait for each other, after that start."""
    wait_at_first: float
    """Its waits for loads, where its block is one of the first that run."""
    wait: float
    """Its waits for loads, where others ran before."""


def estimate(
    reports: Sequence[LaunchReport],
    resources: Resources,
    spec: GpuSpec,
    constants: Constants = FITTED,
    *,
    warm: bool = False,
) -> Estimate:
    """Estimated device time of the launches of one call, one after the other: the first finds
    nothing in L2, or with `warm` what a call before it left there; the others what those before
    left."""
    if not reports:
        floor = spec.launch_floor_us
        return Estimate(
            us=floor,
            terms={"block_start": floor},
            limiter="block_start",
            occupancy=0.0,
            waves=0.0,
            why="nothing was launched",
            sampled="",
            split={**dict.fromkeys(PARTS, 0.0), "fixed": floor},
        )
    single, left = [], math.inf if warm else 0.0
    for report in reports:
        shape = _shape(report, resources, spec)
        moved = traffic(report, spec, shape.held, shape.shared_bytes, left)
        launch = _OnGpu(report=report, shape=shape, moved=moved, spec=spec, constants=constants)
        single.append(_launch_estimate(launch))
        left += moved.footprint
    terms = {name: sum(e.terms[name] for e in single) for name in single[0].terms}
    longest = max(single, key=lambda e: e.us)
    why = longest.why
    if len(single) > 1:
        why = f"{len(single)} launches, of the longest: {why}"
    return replace(
        longest,
        us=sum(e.us for e in single),
        terms=terms,
        limiter=_limiter(terms, len(single), spec),
        why=why,
        store_packets=sum(e.store_packets for e in single),
        split={part: sum(e.split[part] for e in single) for part in PARTS},
    )


def _shape(report: LaunchReport, resources: Resources, spec: GpuSpec) -> _Shape:
    """Where the blocks of a launch lie, by what its kernel takes."""
    launch, blocks = report.launch, report.launch.grid.count
    registers, static = resources[launch.kernel]
    shared_bytes = static + launch.dynamic_shared_bytes
    per_sm = blocks_per_sm(
        spec, registers=registers, shared_bytes=shared_bytes, threads=launch.block.count
    )
    return _Shape(
        blocks=blocks,
        warps=launch.block.warps,
        shared_bytes=shared_bytes + spec.shared_reserved_per_block,
        per_sm=max(per_sm, 1),
        share=-(-blocks // spec.sms),
        scale=blocks / max(report.blocks_run, 1),
        occupancy=per_sm * launch.block.warps * WARP_LANES / spec.threads_per_sm,
    )


def _launch_estimate(launch: _OnGpu) -> Estimate:
    """The time of one launch, and what it is made of."""
    shape, c, constants = launch.shape, launch.counters, launch.constants
    alone = _throughputs(launch)
    units = {unit: alone[unit] for unit in _SM_UNITS}
    warp = _longest_warp(launch)
    first, in_turns = _not_hidden(launch, warp), _in_turns(launch, warp)
    computing = max(units.values())
    on_sm = max(_norm(constants.hiding, in_turns.us, computing) - first.us, 0.0)
    shared = {name: alone[name] for name in ("dram", "l2", "atomics")}
    overlapping = {"sm": on_sm, **shared, "dispatch": launch.dispatch_us}
    fixed = _fixed_us(launch)
    split = time_split(
        fixed_us=fixed,
        first=first,
        warp=in_turns,
        start_share=warp.start / warp.chain,
        units=units,
        overlapping=overlapping,
        constants=constants,
    )
    terms = {
        **alone,
        "latency": (warp.wait + warp.chain) * shape.turns,
        "block_start": launch.spec.launch_floor_us + launch.dispatch_us,
    }
    limiter = _limiter(terms, 1, launch.spec)
    return Estimate(
        us=fixed + first.us + _norm(constants.overlap, *overlapping.values()),
        terms=terms,
        limiter=limiter,
        occupancy=shape.occupancy,
        waves=_waves(launch),
        why=_why(launch, terms, limiter),
        sampled=_sampled(launch.report),
        store_packets=launch.moved.store_packets,
        split=split,
        load_rounds=c.dependent_load_rounds,
        warp_instructions=c.critical_path_instructions,
        machine_instructions=machine_path(c),
        chain_cycles=_result_cycles(launch.report),
        chain_before_load=float(c.critical_path_before_load),
        chain_units=dict(c.critical_path_units),
        chain_lines=dict(c.critical_path_lines),
        load_lines=dict(c.critical_path_load_lines),
        warps_held=shape.held * shape.warps,
        turns=shape.turns,
    )


def _longest_warp(launch: _OnGpu) -> _LongestWarp:
    """What the longest warp waits for: its block's start, its results, its loads."""
    c, moved = launch.counters, launch.moved
    start = launch.constants.start * launch.shape.warps / launch.spec.clocks_per_us
    # A round waits for the last of its sectors.
    sectors = max(1.0, c.global_load_sectors / max(1, c.global_load_requests))
    from_dram = 1 - (1 - moved.new_from_dram) ** sectors
    # The first blocks run at once: what they share was not fetched before, unless one of many
    # runs ahead.
    fetched = moved.cold * min(1.0, (AHEAD / moved.repeated) ** 2)
    return _LongestWarp(
        start=start,
        chain=_chain_us(launch) + start,
        wait_at_first=_wait_us(launch, from_dram=max(fetched, from_dram), beyond_l1=1.0),
        wait=_wait_us(launch, from_dram=from_dram, beyond_l1=moved.new_misses),
    )


def _not_hidden(launch: _OnGpu, warp: _LongestWarp) -> Span:
    """Most of the first blocks' first round of loads and some of their others, which nothing
    hides."""
    constants, spec = launch.constants, launch.spec
    rounds = launch.counters.dependent_load_rounds
    opening = constants.load * _beyond_l1(launch.moved.cold, spec) / spec.clocks_per_us
    opening = opening if rounds else 0.0
    later = constants.phases * (1 - 1 / max(1, rounds))
    return Span(
        waits=constants.first_round * opening + later * warp.wait_at_first,
        chain=constants.first_round * warp.chain / max(1, rounds) + later * warp.chain,
    )


def _in_turns(launch: _OnGpu, warp: _LongestWarp) -> Span:
    """Times of the warps that follow each other in one place of an SM."""
    shape, report = launch.shape, launch.report
    return Span(
        waits=warp.wait_at_first + warp.wait * (_turns(shape, report, "loads") - 1),
        chain=warp.chain * _turns(shape, report, "instructions"),
    )


def _fixed_us(launch: _OnGpu) -> float:
    """Time of the launch itself and of its first access to memory."""
    constants, moved = launch.constants, launch.moved
    ramp = constants.ramp_us + constants.cold_us * moved.cold
    return launch.spec.launch_floor_us + (ramp if moved.loads or moved.stores else 0.0)


def _waves(launch: _OnGpu) -> float:
    return launch.shape.blocks / (launch.shape.per_sm * launch.spec.sms)


def _sampled(report: LaunchReport) -> str:
    """How many blocks were run; "" where all were."""
    return f"{report.blocks_run} of {report.launch.grid.count} blocks" if report.sampled else ""


def _why(launch: _OnGpu, terms: Mapping[str, float], limiter: str) -> str:
    """The limiting term with its counters, and how the blocks lie on the GPU."""
    shape, starting = launch.shape, {"block_start": launch.dispatch_us}
    by = limited_by(launch.report, launch.moved, {**terms, **starting}, limiter, shape.turns)
    could = f"{shape.held} of the {shape.per_sm} blocks of {shape.warps} warps that it could hold"
    return f"{by}; {_waves(launch):.2g} waves of blocks, the busiest SM holds {could}"


def _limiter(terms: Mapping[str, float], launches: int, spec: GpuSpec) -> str:
    fixed = launches * spec.launch_floor_us
    return max(terms, key=lambda name: terms[name] - (fixed if name == "block_start" else 0.0))


_SM_UNITS = ("issue", "special_functions", "lsu", "shared", "tensor", "constants")


def _norm(power: float, *terms: float) -> float:
    """Returns the p-norm of the terms: their sum for power 1, the largest for infinity."""
    largest = max(terms)
    return largest and largest * sum((t / largest) ** power for t in terms) ** (1 / power)


def _turns(shape: _Shape, report: LaunchReport, what: str) -> float:
    """How often a warp's time passes: all but one turn at that of an average warp."""
    c = report.counters
    if what == "loads":
        longest, total = c.critical_path_loads, c.global_load_requests
    else:
        longest, total = c.critical_path_instructions, sum(c.warp_instructions.values())
    mean = total / max(1, report.blocks_run * shape.warps)
    share = min(1.0, mean / longest) if longest else 1.0
    return 1 + (shape.turns - 1) * share


def _throughputs(launch: _OnGpu) -> dict[str, float]:
    """us by unit, if nothing else cost anything."""
    report, shape, moved = launch.report, launch.shape, launch.moved
    counters, spec, constants = launch.counters, launch.spec, launch.constants
    # Of the busiest SM: per block, times its blocks.
    sm_us = shape.share / max(report.blocks_run, 1) / spec.clocks_per_us
    classes = counters.warp_instructions
    loads = max(counters.global_load_wavefronts, counters.global_load_sectors / L1_SECTORS_PER_TURN)
    units = counters.machine_instructions
    loads *= _merged(units["global_load"] + units["global_copy"], counters.global_load_requests)
    shuffles = units["shuffle"] if units else classes["shuffle"]
    local = counters.local_load_requests + counters.local_store_requests
    l1_turns = loads + counters.global_store_lines + local
    fetched = moved.l1_misses * (1 + constants.scattered_load * (1 - moved.load_density))
    of_sm = shape.share / max(shape.blocks, 1) / spec.clocks_per_us
    handed = min(moved.store_packets / PACKETS_PER_CLOCK, moved.stores)
    through_l1 = max(fetched * SECTOR_BYTES / spec.l2_bytes_per_clock, handed)
    l2_us = fetched * SECTOR_BYTES / _l2_bytes_per_us(moved.footprint, spec)
    stored_us = constants.store_packet * moved.store_packets / spec.sms / spec.clocks_per_us
    dram_bytes_per_us = spec.dram_bytes_per_s * spec.dram_reachable * 1e-6
    return {
        "dram": (moved.l2_misses + moved.dram_stores) * SECTOR_BYTES / dram_bytes_per_us,
        "l2": _norm(constants.overlap, l2_us, stored_us),
        "issue": issue_cycles(counters, spec) * sm_us,
        "special_functions": counters.special_tenths / 10 * WARP_LANES / spec.special_lanes * sm_us,
        "lsu": max(l1_turns * sm_us, through_l1 * of_sm),
        "tensor": counters.tensor_tenths / 10 * spec.tensor_cycles * sm_us,
        "shared": sm_us
        * (
            counters.shared_wavefronts
            * _merged(_shared_accesses(counters), counters.shared_requests)
            + constants.shuffle_turns * shuffles
            + constants.barrier_turns * classes["barrier"]
            + MATCH_TURNS * counters.match_turns
        ),
        "constants": CONSTANT_WORD_TURNS * counters.further_constant_words * sm_us,
        "atomics": 1e-3
        * shape.scale
        * max(
            constants.atomic_ns * counters.atomic_hottest_turns,
            constants.float_atomic_ns * counters.atomic_float_turns,
            constants.spread_atomic_ns * counters.atomic_turns,
        ),
    }


def _merged(made: int, requests: int) -> float:
    """The machine code's accesses over the PTX's: of equal ones ptxas makes one, and of neighbours
    in shared memory a wide one. 1 where the machine code is not known."""
    return min(1.0, made / max(1, requests)) if made else 1.0


def _shared_accesses(counters: Counters) -> int:
    """Returns the accesses to shared memory in the machine code; 0 where it is not known, or holds
    those of matrices, which do not compare."""
    units = counters.machine_instructions
    return 0 if units["tensor"] else units["shared"]


def _l2_bytes_per_us(footprint: float, spec: GpuSpec) -> float:
    """Each half of L2 keeps its own copy of what is small; more comes from the far half."""
    near = spec.l2_bytes_per_clock * spec.sms * spec.clocks_per_us
    far = spec.l2_bytes_per_s * 1e-6
    share = min(1.0, max(0.0, 2 - footprint / (L2_NEAR * spec.l2_bytes)))
    return far + (near - far) * share


def _result_cycles(report: LaunchReport) -> float:
    """Cycles of the longest warp of a block alone: its longest chain of results."""
    counters, warps = report.counters, report.launch.block.warps
    meetings = counters.barriers / max(1, report.blocks_run * warps)
    results = counters.critical_path_cycles + MATCH_CYCLES * counters.critical_path_match_turns
    results += CONSTANT_WORD_CYCLES * counters.critical_path_constant_words + counters.copy_cycles
    return results + meetings * MEETING_CYCLES * (warps - MEETING_WARPS)


def _chain_us(launch: _OnGpu) -> float:
    """Returns the time of the longest warp of a block alone, in us: its instructions or its chain
    of results, whichever takes longer, and what it sleeps."""
    constants, c = launch.constants, launch.counters
    results = constants.chain * _result_cycles(launch.report)
    chain = _norm(6.0, results, constants.pace * machine_path(c) / SLOTS)
    return chain / launch.spec.clocks_per_us + c.critical_path_sleep_ns * 1e-3


def _wait_us(launch: _OnGpu, *, from_dram: float, beyond_l1: float) -> float:
    """Returns the time that the longest warp of a block alone waits for loads, in us. The shares
    are of new sectors."""
    c, moved, spec = launch.counters, launch.moved, launch.spec
    new = beyond_l1 * _beyond_l1(from_dram, spec) + (1 - beyond_l1) * L1_LATENCY_CYCLES
    lost = moved.again_misses
    again = lost * _beyond_l1(moved.again_from_dram, spec) + (1 - lost) * L1_LATENCY_CYCLES
    rounds = c.dependent_load_rounds
    fresh = min(rounds, c.fresh_load_rounds)
    cycles = launch.constants.load * (fresh * new + (rounds - fresh) * again)
    return cycles / spec.clocks_per_us


def _beyond_l1(from_dram: float, spec: GpuSpec) -> float:
    """Cycles until a load is there that L1 does not serve."""
    return from_dram * spec.dram_latency_cycles + (1 - from_dram) * spec.l2_latency_cycles
