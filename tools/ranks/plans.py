"""Launch plans of a kernel over several GPUs: each rank gets the cubin and, for each case, the plan
of its own number. Host code of a candidate runs in the recorder alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import record
from astra_chat.tools.run.rank_messages import RankSide
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.ranks import of_rank
from astra_chat.tools.types import Case, Crashed, Finding, Refused, TimedOut
from astra_vgpu.ground.gpu_specs import GpuSpec


@dataclass(frozen=True)
class Planned:
    """A built candidate, and what it launches."""

    build: Build
    plans: tuple[tuple[LaunchPlan, ...], ...]
    """Launch plans of each rank, in the order of the cases."""

    def side(self, name: str, rank: int) -> RankSide:
        """What one rank launches of it."""
        return side_of(name, self.build, self.plans[rank])


def planned(
    build: Build,
    task: Task,
    cases: Sequence[Case],
    ranks: int,
    spec: GpuSpec,
    seed: Seed,
    stop: Stop,
) -> Planned | Refused | Crashed | TimedOut:
    """Records the launches of a build on these cases of `ranks` ranks. Needs no GPU."""
    calls = [of_rank(case, rank) for rank in range(ranks) for case in cases]
    plans = record(build, task, calls, spec, seed.of("plan", ranks).random(), stop=stop)
    if not isinstance(plans, tuple):
        return plans
    count = len(cases)
    if reason := _unequal(plans, count):
        return Refused(gate="plan", findings=(Finding(line=1, what=reason),))
    return Planned(build, tuple(plans[at : at + count] for at in range(0, len(plans), count)))


def side_of(name: str, build: Build, plans: Sequence[LaunchPlan]) -> RankSide:
    """A build with the plans of one rank."""
    used = {one.kernel: (one.registers, one.static_shared_bytes) for one in build.resources}
    return RankSide(name=name, cubin=build.cubin, ptx=build.ptx, resources=used, plans=tuple(plans))


def _unequal(plans: Sequence[LaunchPlan], count: int) -> str:
    """Which case has another number of nodes on one rank than on the first: ranks that wait for
    each other launch alike. "" where none has."""
    for at, plan in enumerate(plans):
        if len(plan.nodes) != len(plans[at % count].nodes):
            return (
                f"{plan.case.label}: this rank makes {len(plan.nodes)} launches, other"
                " ranks a different number"
            )
    return ""
