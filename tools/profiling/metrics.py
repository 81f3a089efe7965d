"""Nsight Compute metrics of a profile: their meaning, the bottleneck, the roofline, stall reasons.

The virtual GPU's profile uses the same names where it counts the same thing. Sources: "Nsight
Compute CLI" and "Profiling Guide", NVIDIA; the roofline model of Williams, Waterman and Patterson
(Communications of the ACM 52, 2009).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from astra_chat.tools.types import Case, Metric, Profile, Timed
from astra_chat.tools.virtual_gpu.adapter import PARTS, UNITS
from astra_vgpu.ground.gpu_specs import GpuSpec

TIME = "gpu__time_duration.sum"
DRAM_READ, DRAM_WRITE = "dram__bytes_read.sum", "dram__bytes_write.sum"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
L1 = "l1tex__throughput.avg.pct_of_peak_sustained_active"
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
SPECIAL = "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active"
LOADS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
LOCAL_LOADS = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
LOCAL_STORES = "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"
LOAD_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
STORE_SECTORS = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio"
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
BANK_CONFLICTS = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
WAVES = "launch__waves_per_multiprocessor"
OCCUPANCY_LIMIT = "sm__maximum_warps_per_active_cycle_pct"
INSTRUCTIONS = "smsp__inst_executed.sum"
LANES = "smsp__thread_inst_executed_per_inst_executed.pct"
_OP = "smsp__sass_thread_inst_executed_op_"
_STALL, _PER_ISSUE = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"

WORDS: dict[str, str] = {
    TIME: "device time of the launch",
    DRAM_READ: "bytes read from DRAM",
    DRAM_WRITE: "bytes written to DRAM",
    "dram__bytes.sum.per_second": "DRAM traffic",
    DRAM: "DRAM throughput, share of peak",
    "lts__t_bytes.sum.per_second": "L2 traffic",
    L2: "L2 throughput, share of peak",
    "lts__t_sector_hit_rate.pct": "L2 hit rate, by sectors",
    L1: "throughput of L1 and shared memory, share of peak",
    "l1tex__t_sector_hit_rate.pct": "L1 hit rate, by sectors",
    LOADS: "global load requests",
    LOAD_SECTORS: "32-byte sectors per load request",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "global store requests",
    STORE_SECTORS: "32-byte sectors per store request",
    SM: "SM throughput, share of peak",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy reached",
    OCCUPANCY_LIMIT: "warps that fit on an SM, share of its maximum",
    "launch__occupancy_limit_registers": "blocks per SM that the registers allow",
    "launch__occupancy_limit_shared_mem": "blocks per SM that shared memory allows",
    "launch__occupancy_limit_warps": "blocks per SM that the warp slots allow",
    "launch__occupancy_limit_blocks": "blocks per SM that the hardware allows",
    ISSUE: "issue slots used",
    "smsp__warps_eligible.avg.per_cycle_active": "warps ready to issue, per scheduler and cycle",
    "smsp__warps_active.avg.per_cycle_active": "resident warps, per scheduler and cycle",
    SPECIAL: "special-function unit, share of peak",
    "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": (
        "load/store unit's instructions, share of peak"
    ),
    SHARED_WAVEFRONTS: "passes through shared memory",
    BANK_CONFLICTS[0]: "bank conflicts of shared loads",
    BANK_CONFLICTS[1]: "bank conflicts of shared stores",
    LOCAL_LOADS: "sectors read from local memory (a thread's arrays, spilled registers)",
    LOCAL_STORES: "sectors written to local memory (a thread's arrays, spilled registers)",
    "launch__registers_per_thread": "registers per thread",
    "launch__shared_mem_per_block_static": "static shared memory of a block",
    "launch__shared_mem_per_block_dynamic": "dynamic shared memory of a block",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads a block",
    WAVES: "waves of blocks per SM",
    INSTRUCTIONS: "warp instructions",
    LANES: "active lanes per warp instruction",
    "smsp__sass_branch_targets_threads_divergent.sum": "branches that split a warp",
    "sm__cycles_elapsed.avg.per_second": "SM clock",
    **{
        f"{_OP}{op}_pred_on.sum": f"{words}, counted per thread"
        for op, words in {
            "fadd": "float additions",
            "fmul": "float multiplications",
            "ffma": "float multiply-adds",
            "hadd": "half additions",
            "hmul": "half multiplications",
            "hfma": "half multiply-adds",
        }.items()
    },
}
"""Meaning of each metric, by Nsight Compute's name."""

STALLS: dict[str, str] = {
    "long_scoreboard": "a load from global or local memory",
    "short_scoreboard": "shared memory or a special function",
    "barrier": "other warps at a block barrier",
    "membar": "a memory fence",
    "wait": "the fixed latency of the preceding instruction",
    "lg_throttle": "a full queue for global loads and stores",
    "mio_throttle": "a full queue for shared memory and special functions",
    "math_pipe_throttle": "a busy arithmetic unit",
    "tex_throttle": "a full texture queue",
    "no_instruction": "the instruction fetch",
    "imc_miss": "a miss in the constant cache",
    "branch_resolving": "a branch to resolve",
    "dispatch_stall": "the dispatcher",
    "drain": "stores to drain at the end",
    "sleeping": "its own nanosleep",
    "gmma": "a warpgroup's matrix product",
    "not_selected": "its turn, because another warp was issued",
}
"""What a warp waits for, by Nsight Compute's name of the stall reason."""
WAITING = ("long_scoreboard", "short_scoreboard", "barrier", "membar")
"""Stall reasons of STALLS that wait for memory or for other warps."""
TOP_STALLS = 3
ASKED = (*WORDS, *(f"{_STALL}{reason}{_PER_ISSUE}" for reason in STALLS))
MORE_PASSES = (SM, *BANK_CONFLICTS, LOCAL_LOADS, LOCAL_STORES)
"""Metrics that no prompt shows and no rule reads, and that take further passes."""
BY_CUPTI = tuple(name for name in ASKED if name not in MORE_PASSES)
"""What an evaluation has counted: 10 passes on an H100, where all take 16."""
TIME_PARTS = {part: f"time_{part}" for part in PARTS}
"""Parts of a case's time, which add up to it."""
REACHABLE, LEFT = "time_reachable", "time_left"
"""The floor that a kernel of the task can reach on the case, and what is left above it."""
LOAD_ROUNDS, PTX_PATH, MACHINE_PATH, CHAIN, TURNS, WARPS_HELD = (
    "dependent_load_rounds",
    "longest_warp_ptx_instructions",
    "longest_warp_machine_instructions",
    "longest_warp_chain_cycles",
    "block_turns",
    "warps_on_busiest_sm",
)
CHAIN_BEFORE_LOAD, OVER_LEAST = "chain_cycles_before_load", "dram_bytes_over_least"
CONSTANT_WORDS = "constant_words_per_load"
LOAD_BYTES, SHARED_WAVEFRONTS_EACH = (
    "global_load_bytes_per_request",
    "shared_wavefronts_per_request",
)
TAX_BARRIERS, TAX_LINKS, TAX_LAUNCHES, TAX_SHARE, RANK_WAITS, LINK_BYTES, OWN_SHARED_BYTES = (
    "tax_barriers",
    "tax_links",
    "tax_launches",
    "tax_share",
    "rank_waits",
    "link_bytes",
    "own_shared_bytes",
)
"""Names of what a kernel over several GPUs pays for its peers (ranks/times.py)."""
OWN = (
    "barriers",
    LOAD_BYTES,
    SHARED_WAVEFRONTS_EACH,
    "roofline_intensity",
    "roofline_ridge",
    "roofline_attainable",
    "roofline_reached",
    *TIME_PARTS.values(),
    REACHABLE,
    LEFT,
    LOAD_ROUNDS,
    PTX_PATH,
    MACHINE_PATH,
    CHAIN,
    TURNS,
    WARPS_HELD,
    CHAIN_BEFORE_LOAD,
    OVER_LEAST,
    CONSTANT_WORDS,
    TAX_BARRIERS,
    TAX_LINKS,
    TAX_LAUNCHES,
    TAX_SHARE,
    RANK_WAITS,
    LINK_BYTES,
    OWN_SHARED_BYTES,
)
"""Names that are not Nsight Compute's: counted by the virtual GPU, or derived."""
BY_UNIT = {unit: f"machine_instructions_{unit}" for unit in UNITS}
"""Names of the instruction counts of the virtual GPU, by the unit that executes them."""
CHAIN_BY_UNIT = {unit: f"chain_cycles_{unit}" for unit in UNITS}
"""Names of the cycles of the longest chain of results, by the unit that they are spent on."""
KNOWN = frozenset((*ASKED, *OWN, *BY_UNIT.values(), *CHAIN_BY_UNIT.values()))
"""Every name that a profile may hold."""
Bottleneck = Literal[
    "dram",
    "l2",
    "issue",
    "special_functions",
    "lsu",
    "shared",
    "tensor",
    "constants",
    "atomics",
    "latency",
    "block_start",
]
BOTTLENECKS = get_args(Bottleneck)

NEEDED = (TIME, DRAM, L2, ISSUE)
"""Without these a bottleneck would be a guess."""
BUSY_PERCENT = 60.0
"""A unit above this share of its peak is what limits the kernel; below, latency does."""
DRAM_SHARE = 0.75
"""All traffic of DRAM passes the L2: as long as DRAM is this near to it, DRAM is the reason."""
START_SHARE = 2.0
"""A kernel that takes at most so many times as long as an empty one is limited by starting."""
KEY = (
    TIME,
    DRAM,
    L2,
    L1,
    ISSUE,
    SPECIAL,
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    OCCUPANCY_LIMIT,
    "smsp__warps_eligible.avg.per_cycle_active",
    LOADS,
    LOAD_SECTORS,
    STORE_SECTORS,
    "launch__registers_per_thread",
    WAVES,
    INSTRUCTIONS,
    LANES,
    DRAM_READ,
    DRAM_WRITE,
)
"""What a prompt shows of a profile that holds more."""


@dataclass(frozen=True)
class Reading:
    """What the metrics of one call say."""

    bottleneck: str
    """One of: dram, l2, issue, special_functions, lsu, shared, latency, block_start."""
    why: str
    derived: tuple[Metric, ...]
    """The roofline position, and the top reasons for stalls, of the metrics that are asked."""


def read(metrics: Mapping[str, Metric], spec: GpuSpec) -> Reading:
    """Bottleneck and roofline by these rules, in this order:

    1. dram where DRAM is at BUSY_PERCENT of its peak and at DRAM_SHARE of the L2's share;
    2. else the busiest of L2, L1 (shared, where most of its passes are shared memory's; else lsu),
       special functions and issue slots, if it is at BUSY_PERCENT;
    3. else block_start, where the time is within START_SHARE of an empty kernel's;
    4. else latency: units idle while warps wait, for what the top stall reason says.
    """
    value = _Values(metrics)
    microseconds = value(TIME) / 1e3
    stalls = _top_stalls(metrics)
    shares = {
        "l2": value(L2),
        _l1_unit(value): value(L1),
        "special_functions": value(SPECIAL),
        "issue": value(ISSUE),
    }
    busiest = max(shares, key=lambda unit: shares[unit])
    if value(DRAM) >= BUSY_PERCENT and value(DRAM) >= DRAM_SHARE * value(L2):
        bottleneck = "dram"
    elif shares[busiest] >= BUSY_PERCENT:
        bottleneck = busiest
    elif microseconds <= START_SHARE * spec.launch_floor_us:
        bottleneck = "block_start"
    else:
        bottleneck = "latency"
    why = (
        f"DRAM at {value(DRAM):.0f} %, L2 at {value(L2):.0f} %, issue slots at {value(ISSUE):.0f} %"
        f" of their peaks in {microseconds:.2f} us under the profiler"
    )
    if stalls:
        first = stalls[0]
        why += f"; {first.value:.0f} % of a warp's cycles are spent waiting for {_reason_of(first)}"
    return Reading(bottleneck, why, (*_roofline(value, spec), *stalls))


def profile_on(timed: Timed, case: Case) -> Profile | None:
    """The profile of one timed case."""
    profiles = (timed.profile, *timed.other_profiles)
    return next((profile for profile in profiles if profile.case == case), None)


def telling(metrics: Iterable[Metric]) -> list[Metric]:
    """The metrics that a prompt shows: the key ones, what is derived, and names of our own."""
    return [m for m in metrics if m.name in KEY or m.name not in WORDS]


def attributed(
    metrics: Mapping[str, Metric], spec: GpuSpec, total: float | None = None
) -> dict[str, float]:
    """us of one call by part (PARTS), from Nsight Compute's figures. They add up to `total`, what
    the timed calls took; where nothing was timed, to the call's time under the profiler.

    An attribution, not a measurement: starting the launch and its blocks take what they take on an
    idle GPU. The rest is divided in proportion to how busy memory (the larger of DRAM and L2) and
    the issue slots are, and to the share of a warp's cycles that wait for memory or barriers.
    """
    value = _Values(metrics)
    total = value(TIME) / 1e3 if total is None else total
    fixed = min(total, spec.launch_floor_us)
    start = min(total - fixed, value("launch__grid_size") * spec.block_dispatch_ns * 1e-3)
    stalls = {reason: value(f"{_STALL}{reason}{_PER_ISSUE}") for reason in STALLS}
    cycles = sum(stalls.values()) + 1.0  # the cycle in which a warp issues
    weights = {
        "waits": 100 * sum(stalls[reason] for reason in WAITING) / cycles,
        "instructions": value(ISSUE),
        "bytes": max(value(DRAM), value(L2)),
    }
    rest = (total - fixed - start) / (sum(weights.values()) or 1.0)
    parts = {part: rest * weight for part, weight in weights.items()}
    return {"fixed": fixed, "block_start": start, **parts}


def split_metrics(parts_us: Mapping[str, float], reachable_us: float) -> list[Metric]:
    """The parts of a time, the floor that is reachable, and what is left above it; as metrics that
    a plan can name. The floor is a model's: a time may be below it, and nothing is left then."""
    total = sum(parts_us.values())
    rows = [(TIME_PARTS[part], parts_us[part], f"of the time: {PARTS[part]}") for part in PARTS]
    floor = "the model's floor: the time to copy the bytes that the task must move"
    rows += [
        (REACHABLE, reachable_us, floor),
        (LEFT, max(0.0, total - reachable_us), "the time beyond time_reachable"),
    ]
    return [Metric(name=name, value=value, unit="us", words=words) for name, value, words in rows]


def over_least(metrics: Iterable[Metric], least_bytes: float) -> list[Metric]:
    """DRAM's traffic over what the task must read and write; nothing where it is not known."""
    moved = [metric.value for metric in metrics if metric.name in (DRAM_READ, DRAM_WRITE)]
    words = "DRAM bytes divided by those that the task must move"
    value = sum(moved) / max(1.0, least_bytes)
    return [Metric(name=OVER_LEAST, value=value, unit="", words=words)] * bool(moved)


class _Values:
    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self._metrics = metrics

    def __call__(self, name: str) -> float:
        return self._metrics[name].value if name in self._metrics else 0.0


def _l1_unit(value: _Values) -> str:
    """Which of the two that share the L1's data path is busy there."""
    sectors = value(LOADS) * value(LOAD_SECTORS)
    return "shared" if value(SHARED_WAVEFRONTS) > sectors / 4 else "lsu"


def _roofline(value: _Values, spec: GpuSpec) -> Sequence[Metric]:
    """Position under the roof of `spec`: nothing where no float operation was counted.

    A multiply-add counts as two operations; a packed half instruction as one a thread, as Nsight
    Compute's own chart has it.
    """
    flops = sum(
        value(f"{_OP}{op}_pred_on.sum") * (2 if op.endswith("fma") else 1)
        for op in ("fadd", "fmul", "ffma", "hadd", "hmul", "hfma")
    )
    moved, seconds = value(DRAM_READ) + value(DRAM_WRITE), value(TIME) / 1e9
    if not flops or not moved or not seconds:
        return ()
    intensity = flops / moved
    ridge = spec.fp32_flops / spec.dram_bytes_per_s
    attainable = min(spec.fp32_flops, intensity * spec.dram_bytes_per_s)
    rows = (
        ("roofline_intensity", intensity, "flop/byte", "float operations per byte of DRAM traffic"),
        ("roofline_ridge", ridge, "flop/byte", "above this intensity, arithmetic is the roof"),
        ("roofline_attainable", attainable / 1e9, "Gflop/s", "the roof at this intensity"),
        ("roofline_reached", 100 * flops / seconds / attainable, "%", "of the roof"),
    )
    return [Metric(name=n, value=v, unit=u, words=w) for n, v, u, w in rows]


def _top_stalls(metrics: Mapping[str, Metric]) -> list[Metric]:
    """The largest stall reasons, as shares of a warp's cycles between two of its instructions."""
    shares = {
        name: metrics[name].value
        for reason in STALLS
        if (name := f"{_STALL}{reason}{_PER_ISSUE}") in metrics
    }
    whole = sum(shares.values()) + 1.0  # the cycle in which it issues
    largest = sorted(shares, key=lambda name: -shares[name])[:TOP_STALLS]
    return [
        Metric(name=name, value=100 * shares[name] / whole, unit="%", words=_stall_text(name))
        for name in largest
        if shares[name] > 0
    ]


def _stall_text(name: str) -> str:
    reason = name.removeprefix(_STALL).removesuffix(_PER_ISSUE)
    return f"of a warp's cycles, waiting for {STALLS[reason]}"


def _reason_of(stall: Metric) -> str:
    return stall.words.partition("waiting for ")[2]
