"""A second clock beside the judge's: Nsight Compute's durations of the same calls, L2 cold.

The rule is in tools/profiling/ncu_agreement.py.

A kernel that detects the profiler gains nothing. If it is slower there, it hurts itself. If it does
less there, its results are missing: what every profiled call wrote is compared with the oracle. If
it ends the process there, it crashed, because the baseline ran there before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.check.compare import compare
from astra_chat.tools.entropy import nonce
from astra_chat.tools.profiling.metrics import TIME
from astra_chat.tools.profiling.ncu_agreement import doubt, in_short
from astra_chat.tools.profiling.nsight_compute import (
    figure,
    ncu_command,
    ncu_rows,
    require_permission,
)
from astra_chat.tools.run.failures import Failure as RunFailure
from astra_chat.tools.run.nvidia_tools import NvidiaToolRun, prepare, watched
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport, ProfiledRequest
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.timing.verdict import TimedCase
from astra_chat.tools.types import Crashed, Implausible, MeasuredTime, Wrong
from astra_vgpu.ground.errors import MissingDependency

CHILD = "astra_chat.tools.runners.cuda_profiled"
TIMEOUT_S = 120.0
MAX_CALLS = 5
HANDED_BACK_BYTES = 128 * 2**20
"""What the profiled calls of a case hand back together, where one call is not more."""

Failure = Wrong | Implausible | RunFailure


@dataclass(frozen=True)
class Profiled:
    """One case under Nsight Compute: the median call."""

    us: float
    launches: int


def prepare_cross_check(runner: Runner, inputs: Path) -> None:
    """Start what baseline and candidate need here (run/nvidia_tools.py)."""
    prepare(runner, ncu_command([TIME]), inputs, child=CHILD, count=2)


def cross_check(
    runner: Runner,
    candidate: Build,
    baseline: Build,
    oracle_cases: Sequence[OracleCase],
    timed: Sequence[TimedCase],
) -> tuple[list[TimedCase] | Failure, str]:
    """Look at the smallest and the largest of the timed cases; what was found, as text.

    The cases come back with the durations in them, or all as they were where Nsight Compute cannot
    be used. Raises Cancelled.
    """
    chosen = ends([runner.task.least_bytes(oracle_case.case) for oracle_case in oracle_cases])
    asked = [oracle_cases[index] for index in chosen]
    try:
        base = _profiled(runner, baseline, asked)
    except MissingDependency as lack:
        return list(timed), f"not compared with Nsight Compute's durations: {lack}"
    if not isinstance(base, list):
        why = f"the baseline's outcome under Nsight Compute was {base.kind}"
        return list(timed), f"not compared with Nsight Compute's durations: {why}"
    profiled = _tried_twice(runner, candidate, asked)
    if profiled is None:
        message = "it crashed twice under Nsight Compute, although the baseline ran"
        return Crashed(case=asked[0].case, message=message), ""
    if not isinstance(profiled, list):
        return profiled, ""
    together = list(timed)
    for index, one, other in zip(chosen, base, profiled, strict=True):
        time = timed[index].time
        assert isinstance(time, MeasuredTime)
        time = time.model_copy(
            update={
                "baseline_profiled_us": one.us,
                "baseline_launches": one.launches,
                "profiled_us": other.us,
                "launches": other.launches,
            }
        )
        if why := doubt(time):
            return Implausible(case=time.case, median_us=time.median_us, why=why), ""
        together[index] = replace(timed[index], time=time)
    return together, in_short(case.time for case in together)


def ends(sizes: Sequence[int]) -> list[int]:
    """Places of the smallest and the largest size; one place where all are equal."""
    places = range(len(sizes))
    return sorted({min(places, key=sizes.__getitem__), max(places, key=sizes.__getitem__)})


def durations(log: str, marker: str, times: Sequence[int]) -> list[Profiled] | None:
    """The median of each case's `times` calls, from ncu's page; None where calls or durations are
    missing."""
    calls: list[list[float]] = []
    for row in ncu_rows(log):
        nanoseconds = figure(row.get(TIME))
        if nanoseconds is None:
            return None
        if (row.get("Kernel Name") or "").startswith(marker):
            calls.append([])
        elif calls:
            calls[-1].append(nanoseconds / 1e3)
    if len(calls) != sum(times) + 1:
        return None
    profiled, start = [], 0
    for count in times:
        some = sorted(calls[start : start + count], key=sum)
        median = some[(count - 1) // 2]
        profiled.append(Profiled(us=sum(median), launches=len(median)))
        start += count
    return profiled


def _tried_twice(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase]
) -> list[Profiled] | Wrong | RunFailure | None:
    """Profiles the calls, again where nothing was recorded, which may be Nsight Compute's own
    failure; None where nothing was recorded either time."""
    for _ in range(2):
        with suppress(MissingDependency):
            return _profiled(runner, build, oracle_cases)
    return None


def _profiled(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase]
) -> list[Profiled] | Wrong | RunFailure:
    """Profiles the calls and compares what they wrote. Raises MissingDependency where nothing, or
    not all, was recorded."""
    marker = f"astra_{nonce()}"
    times = [_calls(runner, oracle_case) for oracle_case in oracle_cases]
    with _under_ncu(runner, build, oracle_cases, marker, times) as seen:
        if not isinstance(seen, NvidiaToolRun):
            return seen
        require_permission(seen)
        durations_us = durations(seen.log, marker, times)
        if durations_us is None:
            output = (seen.log + seen.output).strip()[-300:]
            raise MissingDependency(f"Nsight Compute did not record all calls: {output}")
        for run, count in zip(seen.runs, times, strict=True):
            run = replace(run, report=CaseReport(copies=count))
            if odd := run.oddity(runner.task.args):
                return odd
            verdict = compare(runner.task, run)
            if isinstance(verdict, Wrong):
                note = f"{verdict.note}; called under Nsight Compute".removeprefix("; ")
                return verdict.model_copy(update={"note": note})
    return durations_us


@contextmanager
def _under_ncu(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    marker: str,
    times: Sequence[int],
) -> Iterator[NvidiaToolRun | RunFailure]:
    with watched(
        runner,
        build,
        oracle_cases,
        ncu_command([TIME]),
        step="time",
        timeout_s=TIMEOUT_S,
        alone=True,
        child=CHILD,
        ask=lambda run: run.extended(ProfiledRequest, marker=marker, times=tuple(times)),
    ) as seen:
        yield seen


def _calls(runner: Runner, oracle_case: OracleCase) -> int:
    """Calls of a case to profile: as many as chance needs and the handing back allows."""
    one = sum(arg.bytes_of(oracle_case.case) for arg in runner.task.args)
    return max(1, min(MAX_CALLS, HANDED_BACK_BYTES // one))
