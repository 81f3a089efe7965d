"""Profiles a candidate: Nsight Compute's metrics on a GPU, counters and a model without one."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.counts import (
    counted_reports,
    counter_metrics,
    source_lines,
    with_counts,
)
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.launch_plans import all_or_failure
from astra_chat.tools.run.nvidia_tools import NvidiaToolRun, prepare, run_watched
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.timing.gpu_samples import case_limit_us
from astra_chat.tools.types import AnyTime, Case, Metric, Profile
from astra_chat.tools.virtual_gpu.adapter import reachable_us
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.gpu_specs import spec
from astra_vgpu.ground.toolkit import find_tool

NCU_TIMEOUT_S, NCU_CASE_S = 120.0, 20.0
"""Limits of time: for the first case, and for each further one."""
NOT_PERMITTED = "ERR_NVGPUCTRPERM"
HOW_TO_PERMIT = (
    f"Nsight Compute may not read the GPU's counters ({NOT_PERMITTED}): run as root, or let the"
    " administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0"
)
SHOWN_NAMES = 3


def profile_gpu(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase], times_us: Sequence[float]
) -> list[Profile] | Failure:
    """Profiles as `profile_cuda` does, with what the virtual GPU counts of the same calls at the
    same time."""
    unwanted = Stop(beside=runner.stop)
    with ThreadPoolExecutor(1) as beside:
        counting = beside.submit(counted_reports, runner, build, oracle_cases, unwanted=unwanted)
        try:
            found = profile_cuda(runner, build, oracle_cases, times_us)
            if not isinstance(found, list):
                return found
            return with_counts(found, counting.result(), build.source)
        finally:
            unwanted.set()


def profile_cuda(
    runner: Runner,
    build: Build,
    oracle_cases: Sequence[OracleCase],
    times_us: Sequence[float] = (),
) -> list[Profile] | Failure:
    """One call of each case under Nsight Compute, L2 cold, clocks as they are; in one process.
    `times_us`: what each took when it was timed, of which the profile shows the parts.

    Raises MissingDependency without ncu or its permission.
    """
    seen = run_watched(
        runner,
        build,
        oracle_cases,
        ncu_command(m.ASKED),
        step="profile",
        timeout_s=NCU_TIMEOUT_S + NCU_CASE_S * (len(oracle_cases) - 1),
        alone=True,
    )
    if not isinstance(seen, NvidiaToolRun):
        return seen
    if NOT_PERMITTED in seen.log + seen.output:
        raise MissingDependency(HOW_TO_PERMIT)
    units, rows = _page(seen.log)
    if not rows:
        output = (seen.log + seen.output).strip()[-400:]
        raise MissingDependency(f"Nsight Compute recorded no kernel: {output or 'no message'}")
    cases = [one.case for one in oracle_cases]
    plans = all_or_failure(runner.record(build, cases)) if len(cases) > 1 else []
    if not isinstance(plans, list):
        return plans
    counts = [len(plan.kernels) for plan in plans] or [len(rows)]
    if sum(counts) != len(rows):
        raise MissingDependency(
            f"Nsight Compute recorded {counted(len(rows), 'kernel')}, where {sum(counts)} were"
            " launched"
        )
    known: list[float | None] = [*times_us] or [None] * len(counts)
    return [
        _read_ncu(runner, oracle_case, units, [rows.pop(0) for _ in range(count)], time_us)
        for oracle_case, count, time_us in zip(oracle_cases, counts, known, strict=True)
    ]


def prepare_profile(runner: Runner, inputs: Path) -> None:
    """Start what `profile_cuda` needs (run/nvidia_tools.py)."""
    prepare(runner, ncu_command(m.ASKED), inputs)


def ncu_command(metrics: Sequence[str]) -> list[str]:
    """Nsight Compute on what stands between the profiler's start and stop: L2 cold, clocks as they
    are, one page of CSV. Raises MissingDependency."""
    return [
        str(find_tool("ncu")),
        "--clock-control",
        "none",
        "--cache-control",
        "all",
        "--profile-from-start",
        "off",
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--metrics",
        ",".join(metrics),
    ]


def parse_ncu(text: str) -> tuple[dict[str, Metric], list[str]]:
    """Metrics of ncu's raw CSV page by name, and the kernels' names in order."""
    units, rows = _page(text)
    return _together(units, rows), [row.get("Kernel Name") or "" for row in rows]


def _together(units: Mapping[str, str], rows: Sequence[Mapping[str, str]]) -> dict[str, Metric]:
    """Metrics of the launches of one call, by name.

    Counts add up over kernels; shares, rates and limits are means weighted by the kernels' times.
    What ncu could not read is left out: "n/a", and "nan" where it divided by zero.
    """
    times = [figure(row.get(m.TIME)) or 1.0 for row in rows]
    metrics = {}
    for name in m.ASKED:
        pairs = [
            (value, time)
            for row, time in zip(rows, times, strict=True)
            if (value := figure(row.get(name))) is not None
        ]
        if pairs:
            whole = sum(value for value, _ in pairs)
            mean = sum(value * time for value, time in pairs) / sum(time for _, time in pairs)
            metrics[name] = Metric(
                name=name,
                value=whole if name.endswith(".sum") else mean,
                unit=units.get(name) or "",
                words=m.WORDS.get(name, ""),
            )
    return metrics


def ncu_rows(text: str) -> list[dict[str, str]]:
    """ncu's raw CSV page: a row for each launch, in order, by the columns' names."""
    return _page(text)[1]


def _page(text: str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The row of units, and those of the launches; what ncu says in between is passed over."""
    start = text.find('"ID"')
    try:
        rows = list(csv.DictReader(io.StringIO(text[start:]))) if start >= 0 else []
    except csv.Error:  # no page of ncu's
        rows = []
    return (rows or [{}])[0], [row for row in rows[1:] if (row["ID"] or "").isdecimal()]


def figure(cell: object) -> float | None:
    """A cell's number; None where it holds none, or the page is cut there."""
    try:
        value = float(str(cell or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_ncu(
    runner: Runner,
    oracle_case: OracleCase,
    units: Mapping[str, str],
    rows: Sequence[Mapping[str, str]],
    time_us: float | None,
) -> Profile:
    """The profile of one case from ncu's rows. Raises MissingDependency where what a bottleneck
    needs was not read."""
    metrics = _together(units, rows)
    if missing := [name for name in m.NEEDED if name not in metrics]:
        raise MissingDependency(f"Nsight Compute did not read {', '.join(missing)}")
    gpu = spec(runner.device.spec)
    reading = m.read(metrics, gpu)
    floor, why = case_limit_us(runner, oracle_case), reading.why
    if len(rows) > 1:
        kernels = [row.get("Kernel Name") or "" for row in rows[:SHOWN_NAMES]]
        names = ", ".join(kernel.split("(")[0] for kernel in kernels)
        why += f"; {len(rows)} launches together: {names}"
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


def unprofiled(time: AnyTime, reason: str) -> Profile:
    """What the time over the limit alone says, where Nsight Compute cannot be used."""
    bottleneck = "dram" if time.percent_of_limit >= m.BUSY_PERCENT else "latency"
    return Profile(
        basis=time.basis,
        case=time.case,
        metrics=(),
        bottleneck=bottleneck,
        why=f"judged by the time over the limit alone: {reason}",
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
