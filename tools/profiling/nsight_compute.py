"""Hardware counters of a candidate's launches: by Nsight Compute round the process."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.profiling import metrics as m
from astra_chat.tools.profiling.hardware_counters import HardwareCounters, Launch, NotPermitted
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.launch_plans import all_or_failure
from astra_chat.tools.run.nvidia_tools import NvidiaToolRun, prepare, run_watched
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_tool

TIMEOUT_S, CASE_S = 120.0, 20.0
"""Limits of time: for the first case, and for each further one."""
NOT_PERMITTED = "ERR_NVGPUCTRPERM"


def by_ncu(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase]
) -> HardwareCounters | Failure:
    """One call of each case under Nsight Compute, L2 cold, clocks as they are; in one process.

    Raises MissingDependency without ncu or its permission.
    """
    seen = run_watched(
        runner,
        build,
        oracle_cases,
        ncu_command(m.ASKED),
        step="profile",
        timeout_s=TIMEOUT_S + CASE_S * (len(oracle_cases) - 1),
        alone=True,
    )
    if not isinstance(seen, NvidiaToolRun):
        return seen
    require_permission(seen)
    units, launches = read_ncu(seen.log)
    if not launches:
        output = (seen.log + seen.output).strip()[-400:]
        raise MissingDependency(f"Nsight Compute recorded no kernel: {output or 'no message'}")
    cases = [one.case for one in oracle_cases]
    plans = all_or_failure(runner.record(build, cases)) if len(cases) > 1 else []
    if not isinstance(plans, list):
        return plans
    counts = [len(plan.kernels) for plan in plans] or [len(launches)]
    if sum(counts) != len(launches):
        raise MissingDependency(
            f"Nsight Compute recorded {counted(len(launches), 'kernel')}, but {sum(counts)} were"
            " launched"
        )
    of_cases = [[launches.pop(0) for _ in range(count)] for count in counts]
    return HardwareCounters(units=units, cases=of_cases, words="Nsight Compute")


def require_permission(seen: NvidiaToolRun) -> None:
    """Raises NotPermitted where Nsight Compute was not let at the counters."""
    if NOT_PERMITTED in seen.log + seen.output:
        raise NotPermitted(f"Nsight Compute ({NOT_PERMITTED})")


def prepare_ncu(runner: Runner, inputs: Path) -> None:
    """Start what `by_ncu` needs (run/nvidia_tools.py)."""
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


def read_ncu(text: str) -> tuple[dict[str, str], list[Launch]]:
    """Units of ncu's raw CSV page by metric, and what it says of each launch, in order. What it
    could not read is left out: "n/a", and "nan" where it divided by zero."""
    units, rows = _page(text)
    names = [name for name in m.ASKED if name in units]
    return {name: units[name] or "" for name in names}, [
        Launch(
            short_name(row.get("Kernel Name") or ""),
            {name: value for name in names if (value := figure(row.get(name))) is not None},
        )
        for row in rows
    ]


def short_name(kernel: str) -> str:
    """A kernel's own name: "silu" of "void <unnamed>::silu<int, 8>(const int *)"."""
    named = re.sub(r"(<unnamed>|\(anonymous namespace\))::", "", kernel)
    return re.split(r"[(<]", named)[0].split("::")[-1].split(" ")[-1]


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
