"""Hardware counters of a candidate's launches: by CUPTI, in the process that launches them.

That takes a process of 0.1 s and a pass of some milliseconds, where Nsight Compute takes seconds to
start. Both give `HardwareCounters`; the rules of metrics.py read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.mangled import kernel_name
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.profiling.metrics import BY_CUPTI
from astra_chat.tools.run.failures import Failure, failure_of, last_line
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import (
    BadReport,
    CaseReport,
    CountersReport,
    CountersRequest,
    read_report,
)
from astra_chat.tools.run.requests import Batch, Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.memory_watch import StepMemory
from astra_chat.tools.system.subprocesses import StepTimeout, signal_name
from astra_chat.tools.types import TimedOut
from astra_chat.tools.wording import counted
from astra_vgpu.ground.errors import MissingDependency

CHILD = "astra_chat.tools.runners.cuda_counters"
TIMEOUT_S = 120.0
HOW_TO_PERMIT = (
    "run as root, or have the administrator load the driver with"
    " NVreg_RestrictProfilingToAdminUsers=0"
)
UNITS = {
    "nanosecond": "ns",
    "percent": "%",
    "byte/second": "byte/s",
    "instruction": "inst",
    "gpc_cycle/second": "hz",
    "branch_target": "branches",
    "l2_sector": "sector",
    "l2_sector/l1tex_request": "sector",
    "l1tex_request": "",
    "l1tex_wavefront": "",
    "l1data_bank_conflict": "",
}
"""Nsight Compute's names of units, by CUPTI's."""
UNITS_OF_THE_DRIVER = {
    "launch__registers_per_thread": "register/thread",
    "launch__shared_mem_per_block_static": "byte/block",
    "launch__shared_mem_per_block_dynamic": "byte/block",
    "sm__maximum_warps_per_active_cycle_pct": "%",
}


class NotPermitted(MissingDependency):
    """This machine lets nobody like us read the GPU's counters: no other tool need be tried."""

    def __init__(self, who: str) -> None:
        super().__init__(f"{who} may not read the GPU's counters: {HOW_TO_PERMIT}")


@dataclass(frozen=True)
class Launch:
    """What was counted of one launch."""

    kernel: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class HardwareCounters:
    """What was counted of each case's launches."""

    units: Mapping[str, str]
    cases: Sequence[Sequence[Launch]]
    words: str
    """What counted, and how."""
    same_as: Mapping[int, int] = field(default_factory=dict)
    """Cases that were not called, and the one that launches the same."""


def by_cupti(
    runner: Runner, build: Build, oracle_cases: Sequence[OracleCase]
) -> HardwareCounters | Failure:
    """Counts one call of each case, L2 cold, clocks as they are; of cases that launch the same, of
    the first.

    Raises MissingDependency where CUPTI cannot be used, NotPermitted among them, and Cancelled.
    """
    calls = runner.planned(build, oracle_cases)
    if not isinstance(calls, list):
        return calls
    firsts = first_alike([call.plan for call in calls])
    asked = sorted(set(firsts))
    report = _report(runner, build, [calls[number] for number in asked])
    if not isinstance(report, CountersReport):
        return report
    if report.lacks:
        raise NotPermitted("CUPTI") if report.refused else MissingDependency(report.lacks)
    case = oracle_cases[asked[report.failed]].case
    if failure := failure_of(CaseReport(status=report.status), case):
        return failure
    units = {name: UNITS.get(unit, unit) for name, unit in report.units.items()}
    launches = [[Launch(kernel_name(k.kernel), k.values) for k in one] for one in report.calls]
    return HardwareCounters(
        units=UNITS_OF_THE_DRIVER | units,
        cases=[launches[asked.index(first)] for first in firsts],
        words=f"CUPTI, {counted(report.passes, 'pass', 'passes')} on {counted(len(asked), 'case')}",
        same_as={number: first for number, first in enumerate(firsts) if first != number},
    )


def first_alike(plans: Sequence[LaunchPlan | None]) -> list[int]:
    """The first plan, for each, that launches the same: kernels, grids, and numbers among the
    parameters. Addresses differ, and what lies there."""
    nodes = [plan.nodes if plan else () for plan in plans]
    return [nodes.index(one) for one in nodes]


def prepare_counters(runner: Runner, inputs: Path) -> None:
    """Start the process of counters to come."""
    runner.pool.prepare(
        CHILD, "profile", 1, lambda builds, scratch: _sandbox(runner, (builds, inputs), scratch)
    )


def _report(runner: Runner, build: Build, calls: Sequence[Call]) -> CountersReport | Failure:
    batch = Batch(build, calls, "profile", compared_there=True)
    read = (build.folder, *runner.inputs(batch.oracle_cases))
    with (
        runner.process("profile", partial(_sandbox, runner, read), CHILD) as process,
        runner.leased("profile", alone=True),
    ):
        try:
            request = runner.cuda_request(batch, process).extended(
                CountersRequest, metrics=BY_CUPTI
            )
            process.worker.ask(request.model_dump(mode="json"), TIMEOUT_S, runner.stop)
            reports = list(process.worker.reports())
            end = process.worker.finish()
        except StepTimeout:
            return TimedOut(step="profile", limit_s=TIMEOUT_S)
        except StepMemory:
            raise MissingDependency("CUPTI took more than half of this machine's memory") from None
    try:
        return read_report(CountersReport, reports[0])
    except (IndexError, BadReport):
        # Only device code of the candidate is there: what ends the process is CUPTI's or ours.
        how = f"{signal_name(end.returncode)}; {last_line(end.output)}"
        raise MissingDependency(f"the process that uses CUPTI was {how}") from None


def _sandbox(runner: Runner, read: Sequence[Path], scratch: Path) -> SandboxPolicy:
    """A runner's, with root's privileges: performance counters need them."""
    return replace(runner.policy(read, scratch), privileges=True)
