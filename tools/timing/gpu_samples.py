"""A GPU's raw samples to one case's time: interval, A/A noise, and checks that it is plausible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import Block, RawTimes
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.raw_samples import pack
from astra_chat.tools.types import Case, Device, Implausible, MeasuredTime
from astra_chat.tools.wording import counted
from astra_vgpu.ground.gpu_specs import limit_us, spec

BOOTSTRAPS = 2000
SLOW_CLOCK = 0.97
"""A block whose SM clock fell below this share of the median is left out."""
LEAST_STEADY = 5
HOST_SHARE = 0.5
"""Events that claim less than this share of what the host's clock saw are not believed; what the
host adds to every replay (record, launch, wait) is allowed for."""
SAID = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w", "throttle_reasons")
"""NVML's readings at each block, kept with the time."""
SPACED_NOTE = "timed with another kernel between launches, whose time is subtracted"


def measured_time(runner: Runner, run: CaseRun, weight: float) -> MeasuredTime | Implausible:
    """One case of a real GPU."""
    floor = case_limit_us(runner, run.oracle_case)
    return time_of(run.report.measured, run.oracle_case.case, weight, floor)


def time_of(times: RawTimes, case: Case, weight: float, floor: float) -> MeasuredTime | Implausible:
    """What a case's samples say: a pure function of them. The interval is never narrower than the
    A/A noise. `floor`: the case's physical limit, in microseconds."""
    blocks = steady(times.blocks)
    candidate_us = median(b.candidate_us for b in blocks)
    if why := _implausible(candidate_us, floor, times):
        return Implausible(case=case, median_us=candidate_us, why=why)
    low, middle, high = interval(log_ratios(blocks))
    noise = abs(median(math.log(b.baseline_us / b.control_us) for b in blocks))
    return MeasuredTime(
        case=case,
        weight=weight,
        baseline_us=median(b.baseline_us for b in blocks),
        median_us=candidate_us,
        ratio=math.exp(middle),
        ratio_low=math.exp(min(low, middle - noise)),
        ratio_high=math.exp(max(high, middle + noise)),
        limit_us=floor,
        percent_of_limit=100 * floor / candidate_us,
        baseline_event_us=median(times.baseline_event_us),
        event_us=median(times.candidate_event_us),
        sm_clock_mhz=int(median(b.clock.sm_clock_mhz for b in blocks)),
        note="; ".join(
            filter(None, [SPACED_NOTE if times.spaced else "", _clock_note(times, blocks)])
        ),
        baseline_warm_us=median(b.baseline_us for b in times.warm),
        warm_us=median(b.candidate_us for b in times.warm),
        noise=noise,
        blocks=len(blocks),
        gpu={name: tuple(getattr(b.clock, name) for b in times.blocks) for name in SAID},
        raw=pack(times),
    )


def steady(blocks: Sequence[Block]) -> list[Block]:
    """Blocks that ran unthrottled at the usual clock; all of them where that leaves too few for an
    interval."""
    usual = median(b.clock.sm_clock_mhz for b in blocks)
    kept = [
        b for b in blocks if not b.clock.throttled and b.clock.sm_clock_mhz >= SLOW_CLOCK * usual
    ]
    return kept if len(kept) >= min(LEAST_STEADY, len(blocks)) else list(blocks)


def _clock_note(times: RawTimes, kept: Sequence[Block]) -> str:
    """Notes about throttling, slow clocks and other processes."""
    blocks, notes = times.blocks, []
    if others := times.other_processes:
        notes.append(
            f"{counted(others, 'other process', 'other processes')} used the GPU at the same time"
        )
    if slow := [block for block in kept if block.clock.throttled]:
        hot = (
            f"{max(b.clock.temperature_c for b in slow)} C, {max(b.clock.power_w for b in slow)} W"
        )
        share = (
            "all the time"
            if len(slow) == len(blocks)
            else f"in {len(slow)} of {len(blocks)} blocks"
        )
        notes.append(
            f"the GPU was throttled {share} ({hot}), but these blocks could not be left out"
        )
    elif 4 * (left_out := len(blocks) - len(kept)) > len(blocks):
        notes.append(f"{left_out} of {len(blocks)} blocks left out: throttled or slowly clocked")
    return "; ".join(notes)


def interval(logs: Sequence[float]) -> tuple[float, float, float]:
    """Low, median and high of paired log-ratios: 95 % percentile bootstrap of the median."""
    values = np.asarray(logs)
    drawn = np.random.default_rng(0).integers(len(values), size=(BOOTSTRAPS, len(values)))
    medians = np.median(values[drawn], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return float(low), float(np.median(values)), float(high)


def log_ratios(blocks: Sequence[Block]) -> list[float]:
    """Logarithms of baseline over candidate, one a block: above 0 is faster."""
    return [math.log(b.baseline_us / b.candidate_us) for b in blocks]


def width_of(logs: Sequence[float]) -> float:
    """Width of the ratio's 95 % interval, as a share of its lower end."""
    low, _, high = interval(logs)
    return math.exp(high - low) - 1


def _implausible(candidate_us: float, floor_us: float, times: RawTimes) -> str:
    if why := below_limit(candidate_us, floor_us):
        return why
    if times.event_us < HOST_SHARE * times.host_us:
        claimed, seen = times.event_us / 1e3, times.host_us / 1e3
        return f"the events report {claimed:.1f} ms, but the host's clock measured {seen:.1f} ms"
    return ""


def below_limit(us: float, limit_us: float) -> str:
    """What is said of a time that no kernel can have; "" of one that it can."""
    if us >= limit_us:
        return ""
    return (
        f"{us:.3f} us is below the physical limit of {limit_us:.3f} us, which follows from the"
        " contract's bytes and operations (least_bytes and flops, if task.toml states them)"
    )


def case_limit_us(runner: Runner, oracle_case: OracleCase) -> float:
    """The time below which no kernel of this contract can be, on the device's GPU."""
    return contract_limit_us(runner.task, oracle_case.case, runner.device)


def contract_limit_us(task: Task, case: Case, device: Device) -> float:
    """The time in us below which no kernel of a task can be on a case, on any device whose
    constants are known."""
    tensor = not task.is_float32(case) or task.tensor_float32
    gpu = spec(device.spec)
    return limit_us(task.least_bytes(case), task.flops_of(case), gpu, tensor=tensor)
