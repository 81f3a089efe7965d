"""Guard, build, audit and plan of a kernel over several GPUs, and what its ranks are sent.

Host code of a candidate runs in the recorder alone; each rank gets the cubin and, for each case,
the launch plan of its own number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.judge_steps import Builder, Steps
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import record
from astra_chat.tools.system.background import Background
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import BuildFailed, Case, Crashed, Device, Finding, Refused, TimedOut
from astra_vgpu.ground.gpu_specs import spec
from lab.ranks.contract import RanksTask

TIER = "sglang"
"""The tier whose file is baseline.cu."""
Fault = Refused | BuildFailed | TimedOut | Crashed
"""Why a candidate has no launch plans."""


@dataclass(frozen=True)
class Planned:
    """A built candidate, and what it launches."""

    build: Build
    plans: tuple[tuple[LaunchPlan, ...], ...]
    """Launch plans of each rank, in the order of the cases."""


def planned(
    task: RanksTask, source: str, cases: Sequence[Case], ranks: int, device: Device, seed: Seed
) -> Planned | Fault:
    """Guards, builds and audits a source and records its launches on these cases of `ranks` ranks.

    Needs no GPU. Raises BadInput where the baseline does not build, and MissingDependency without
    a compiler.
    """
    builder, steps = Builder(task.task, TIER, device, Stop(), lambda _: None), Steps(seed)
    if refused := builder.guard(source, steps):
        return refused
    built = builder.build(source, steps, (), Background(lambda: None))
    if not isinstance(built, Build):
        return built
    calls = [task.of_rank(case, rank) for rank in range(ranks) for case in cases]
    drawn = seed.of("plan").random()
    plans = record(built, task.task, calls, spec(device.spec), drawn)
    if not isinstance(plans, tuple):
        return plans
    if reason := _unequal(plans, len(cases)):
        return Refused(gate="plan", findings=(Finding(line=1, what=reason),))
    count = len(cases)
    return Planned(built, tuple(plans[at : at + count] for at in range(0, len(plans), count)))


def _unequal(plans: Sequence[LaunchPlan], count: int) -> str:
    """Which case has another number of nodes on one rank than on the first: ranks that wait for
    each other launch alike. "" where none has."""
    for at, plan in enumerate(plans):
        if len(plan.nodes) != len(plans[at % count].nodes):
            return f"{plan.case.label}: {len(plan.nodes)} launches, other ranks have another number"
    return ""
