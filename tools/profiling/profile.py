"""Profiles a candidate: a GPU's hardware counters, or what the virtual GPU counts, with a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.counts import (
    COUNTING_S,
    counted_reports,
    counter_metrics,
    source_lines,
    with_counts,
)
from astra_chat.tools.profiling.hardware_counters import (
    HardwareCounters,
    Launch,
    NotPermitted,
    by_cupti,
)
from astra_chat.tools.profiling.nsight_compute import by_ncu
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.gpu_samples import case_limit_us
from astra_chat.tools.types import NOT_PROFILED, AnyTime, Case, Metric, Profile
from astra_chat.tools.virtual_gpu.adapter import reachable_us
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.gpu_specs import spec

SHOWN_NAMES = 3
NO_COUNTERS = "no counters"
BESIDE_CUPTI_S = 2.0
"""Time for what the virtual GPU counts beside CUPTI: enough for all but the largest cases."""
Tool = Callable[[Runner, Build, Sequence[OracleCase]], HardwareCounters | Failure]
"""What counts one call of each case. Raises MissingDependency where it cannot be used."""


def profile_gpu(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    times: Sequence[AnyTime],
    *,
    thorough: bool,
) -> tuple[list[Profile] | Failure, str]:
    """Profiles of these cases with what the virtual GPU counts of the same calls at the same time,
    and by what tool. `thorough`: all metrics, by Nsight Compute; else by CUPTI. Each stands in for
    the other where that cannot be used; where neither can, the profiles say so.

    `times`: what each case took when it was timed. Raises MissingDependency where there are
    neither counters nor times.
    """
    tools: tuple[Tool, Tool] = (by_ncu, by_cupti) if thorough else (by_cupti, by_ncu)
    limit_s, unwanted = COUNTING_S if thorough else BESIDE_CUPTI_S, Stop(beside=runner.stop)
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(counted_reports, runner, build, oracle_cases, limit_s, unwanted)
        try:
            found, words = _by_any(tools, runner, build, oracle_cases, times)
            if isinstance(found, list):
                found = with_counts(found, counting.result(), build.source)
        finally:
            unwanted.set()
    return found, words


def _by_any(
    tools: Sequence[Tool],
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    times: Sequence[AnyTime],
) -> tuple[list[Profile] | Failure, str]:
    try:
        return profile_by(tools, runner, build, oracle_cases, [time.median_us for time in times])
    except MissingDependency as lack:
        words = f"{NO_COUNTERS}: {lack}"
        if not times:
            raise MissingDependency(f"{NOT_PROFILED}: {words}") from None
        return [unprofiled(time, words) for time in times], words


def profile_by(
    tools: Sequence[Tool],
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    times_us: Sequence[float] = (),
) -> tuple[list[Profile] | Failure, str]:
    """Profiles of these cases by the first of these tools that can be used, and by which.
    `times_us`: what each took when it was timed, of which the profile shows the parts.

    Raises MissingDependency where none can be used.
    """
    lacks = list[str]()
    for tool in tools:
        try:
            counters = tool(runner, build, oracle_cases)
            if not isinstance(counters, HardwareCounters):
                return counters, ""
            profiles = _profiles(runner, oracle_cases, counters, times_us)
        except NotPermitted:
            raise
        except MissingDependency as lack:
            lacks.append(str(lack))
        else:
            return profiles, "; ".join([counters.words, *lacks])
    raise MissingDependency("; ".join(lacks))


def _profiles(
    runner: Runner,
    oracle_cases: Sequence[OracleCase],
    counters: HardwareCounters,
    times_us: Sequence[float],
) -> list[Profile]:
    known: list[float | None] = [*times_us] or [None] * len(oracle_cases)
    profiles = [
        _profile(runner, oracle_case, counters.units, launches, time_us)
        for oracle_case, launches, time_us in zip(oracle_cases, counters.cases, known, strict=True)
    ]
    for number, first in counters.same_as.items():
        same = f"; counted on {profiles[first].case.label}, which has the same launches"
        profiles[number] = profiles[number].model_copy(update={"why": profiles[number].why + same})
    return profiles


def together(units: Mapping[str, str], launches: Sequence[Launch]) -> dict[str, Metric]:
    """Metrics of the launches of one call, by name.

    Counts add up over kernels; shares, rates and limits are means weighted by the kernels' times.
    """
    metrics = {}
    for name in m.ASKED:
        pairs = [
            (launch.values[name], launch.values.get(m.TIME) or 1.0)
            for launch in launches
            if name in launch.values
        ]
        if pairs:
            whole = sum(value for value, _ in pairs)
            mean = sum(value * time for value, time in pairs) / sum(time for _, time in pairs)
            metrics[name] = Metric(
                name=name,
                value=whole if name.endswith(".sum") else mean,
                unit=units.get(name, ""),
                words=m.WORDS.get(name, ""),
            )
    return metrics


def _profile(
    runner: Runner,
    oracle_case: OracleCase,
    units: Mapping[str, str],
    launches: Sequence[Launch],
    time_us: float | None,
) -> Profile:
    """The profile of one case from its launches. Raises MissingDependency where what a bottleneck
    needs was not read."""
    metrics = together(units, launches)
    if missing := [name for name in m.NEEDED if name not in metrics]:
        raise MissingDependency(f"no counter was read for {', '.join(missing)}")
    gpu = spec(runner.device.spec)
    reading = m.read(metrics, gpu)
    floor, why = case_limit_us(runner, oracle_case), reading.why
    if len(launches) > 1:
        names = ", ".join(launch.kernel for launch in launches[:SHOWN_NAMES])
        why += f"; {len(launches)} launches together: {names}"
    microseconds = metrics[m.TIME].value / 1e3
    shown = tuple(metrics[name] for name in m.WORDS if name in metrics)
    split = m.split_metrics(m.attributed(metrics, gpu, time_us), _reachable_us(runner, oracle_case))
    return Profile(
        basis="measured",
        case=oracle_case.case,
        metrics=(*shown, *reading.derived, *split, *_over_least(runner, oracle_case, shown)),
        bottleneck=reading.bottleneck,
        why=why,
        limit_us=floor,
        percent_of_limit=100 * floor / microseconds,
    )


def _reachable_us(runner: Runner, oracle_case: OracleCase) -> float:
    task, case = runner.task, oracle_case.case
    return reachable_us(
        task.least_bytes(case),
        case_limit_us(runner, oracle_case),
        spec(runner.device.spec),
        rounds=_rounds(task, case),
    )


def _rounds(task: Task, case: Case) -> int:
    """Rounds of loads that no kernel can do without: a second where a loaded index says what to
    load."""
    read = {arg.name for arg in task.args if arg.read and arg.present(case)}
    follows = any(arg.index and arg.name in read and arg.index.table in read for arg in task.args)
    return 2 if follows else min(len(read), 1)


def _over_least(runner: Runner, oracle_case: OracleCase, metrics: Sequence[Metric]) -> list[Metric]:
    return m.over_least(metrics, runner.task.least_bytes(oracle_case.case))


def unprofiled(time: AnyTime, why: str) -> Profile:
    """What is said of a case where no tool gave counters: no estimate stands in for them."""
    return Profile(
        basis=time.basis,
        case=time.case,
        metrics=(),
        bottleneck=NOT_PROFILED,
        why=why,
        limit_us=time.limit_us,
        percent_of_limit=time.percent_of_limit,
    )


def profile_virtual(
    runner: Runner, candidate: Build, oracle_case: OracleCase, report: CaseReport
) -> Profile:
    """The profile of a case that the virtual GPU ran with counters."""
    estimate, counted_metrics = report.estimated, counter_metrics(report)
    floor = case_limit_us(runner, oracle_case)
    return Profile(
        basis="estimated",
        case=oracle_case.case,
        metrics=(
            *counted_metrics,
            *_over_least(runner, oracle_case, counted_metrics),
            *m.split_metrics(estimate.split, _reachable_us(runner, oracle_case)),
        ),
        bottleneck=estimate.limiter,
        why=estimate.why,
        limit_us=floor,
        percent_of_limit=100 * floor / estimate.us,
        lines=source_lines(estimate, candidate.source),
    )
