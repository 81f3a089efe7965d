"""The launch plans of a run: one for each call, or why there is none; recorded once a case."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Annotated

from pydantic import Field, TypeAdapter

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.early_reads import EarlyReads
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.process import RECORD_TIMEOUT_S
from astra_chat.tools.plan.record import Outcome, record_each
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.system.background import begins_ahead
from astra_chat.tools.system.fork_servers import server_of
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, Worker, signal_name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Crashed, Device, Refused, TimedOut
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.gpu_specs import spec

MAX_CRASHES = 5
"""Cases on which a launcher ends its process before it is tried on no more. What returns an error
ends nothing."""
MAX_KEPT = 20_000
"""Most plans that are kept."""
Recorded = LaunchPlan | Failure
Key = tuple[Path, str, str]
CHILD = "astra_chat.tools.runners.recorded_plans"
MANY = 64
"""Cases from which on a process of their own is worth its start."""
PATIENCE = 10.0
"""The process's limit of time over that of a recorder."""
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(
    Annotated[Refused | Crashed | TimedOut, Field(discriminator="kind")]
)
Found = tuple[LaunchPlan | Crashed, ...] | Outcome


def all_or_failure(recorded: Sequence[Recorded]) -> list[LaunchPlan] | Failure:
    """The plans of all calls, or why the first call that has none has none."""
    plans = list[LaunchPlan]()
    for one in recorded:
        if not isinstance(one, LaunchPlan):
            return one
        plans.append(one)
    return plans


@dataclass
class LaunchPlans:
    """Records the launchers of one task's builds, and keeps what they launch: a case that was
    checked is timed by the same plan."""

    task: Task
    device: Device
    stop: Stop
    kept: dict[Key, LaunchPlan] = field(default_factory=dict)
    """Plans by build, launcher and case."""
    _early: EarlyReads | None = None
    _one: RLock = field(default_factory=RLock)
    """Threads that ask for the same plans: one records, the other finds them."""

    def of(
        self, build: Build, cases: Sequence[Case], entries: Sequence[str] | None, seed: Seed
    ) -> list[Recorded]:
        """What each call launches, or why that cannot be said. `entries`: the launcher of each call
        where it is not the task's. Raises what record.record raises."""
        called = entries or [self.task.entry] * len(cases)
        found: dict[int, Recorded] = {}
        for entry in dict.fromkeys(called):
            which = [i for i, name in enumerate(called) if name == entry]
            task = self.task.model_copy(update={"entry": entry})
            recorded = self._known(build, entry, [cases[i] for i in which])
            if recorded is None:
                with self._one:
                    wanted = [cases[i] for i in which]
                    recorded = self._recorded(build, task, wanted, seed.of(entry))
            found |= zip(which, recorded, strict=True)
        return [self._waiting(build, found[i]) for i in range(len(cases))]

    def _known(self, build: Build, entry: str, cases: Sequence[Case]) -> Sequence[Recorded] | None:
        """Returns the plans of these cases where all are kept, without waiting for others that are
        being recorded."""
        kept = self.kept
        plans = [kept.get((build.folder, entry, case.key)) for case in cases]
        return None if any(plan is None for plan in plans) else [p for p in plans if p is not None]

    def _waiting(self, build: Build, recorded: Recorded) -> Recorded:
        """Returns what was recorded, or as a fault what a programmatic launch of the plan touches
        before it waits. Raises what EarlyReads.fault raises."""
        if not isinstance(recorded, LaunchPlan):
            return recorded
        if self._early is None:
            weights = {arg.name for arg in self.task.args if arg.weight}
            self._early = EarlyReads(weights, self.stop)
        return self._early.fault(build, recorded) or recorded

    def keep(self, build: Build, plans: Sequence[LaunchPlan]) -> None:
        """Take these as what the build's launcher launches: they were captured elsewhere."""
        for plan in plans:
            self.kept[build.folder, self.task.entry, plan.case.key] = plan

    def _recorded(
        self, build: Build, task: Task, cases: Sequence[Case], seed: Seed
    ) -> list[Recorded]:
        """Returns what was recorded for each case of one launcher; cases may repeat. A launcher
        that is refused on a case has no plan for any; one that crashes, or returns an error, has
        none for that case."""
        keys = [(build.folder, task.entry, case.key) for case in cases]
        left = {key: case for key, case in zip(keys, cases, strict=True) if key not in self.kept}
        failed: dict[Key, Failure] = {}
        crashes = 0
        if len(self.kept) + len(left) > MAX_KEPT:
            self.kept = {key: plan for key, plan in self.kept.items() if key in keys}
        while left:
            draws = seed.of(crashes)
            result = recorded(build, task, [*left.values()], self.device, draws, self.stop)
            if isinstance(result, tuple):
                for key, one in zip(left, result, strict=True):
                    if isinstance(one, LaunchPlan):
                        self.kept[key] = one
                    else:
                        failed[key] = one
                break
            crashes += 1
            if not isinstance(result, Crashed) or crashes == MAX_CRASHES:
                failed |= dict.fromkeys(left, result)
                break
            key = (build.folder, task.entry, result.case.key)
            failed[key] = result
            del left[key]
        return [failed[key] if key in failed else self.kept[key] for key in keys]


def recorded(
    build: Build, task: Task, cases: Sequence[Case], device: Device, seed: Seed, stop: Stop
) -> Found:
    """What `record_each` finds with draws from `seed`, and raises; of many cases in a process of
    their own, where this machine has cores for it and starts such processes quickly: to record a
    thousand takes seconds of Python, in which the judge's other threads would wait for the
    interpreter, those that compare results. What is recorded depends on the seed only."""
    if len(cases) < MANY or not begins_ahead() or server_of(CHILD) is None:
        return record_each(build, task, cases, spec(device.spec), seed.random(), stop=stop)
    return recorded_apart(build, task, cases, device, seed, stop)


def recorded_apart(
    build: Build, task: Task, cases: Sequence[Case], device: Device, seed: Seed, stop: Stop
) -> Found:
    """Does what `recorded` does, in a process of its own in any case."""
    with tempfile.TemporaryDirectory(prefix="astra-plans-") as name:
        folder = Path(name)
        (folder / "cases").write_text("".join(f"{case.model_dump_json()}\n" for case in cases))
        (folder / "source").write_text(build.source)
        asked = {
            "folder": name,
            "task": str(task.folder.resolve()),
            "entry": task.entry,
            "build": str(build.folder.resolve()),
            "spec": device.spec,
            "seed": seed.text,
        }
        each = _each(asked, stop)
        lines = (folder / "plans").read_text().splitlines()
    if not each:
        return _OUTCOME.validate_json(lines[0])
    return tuple(_one(line) for line in lines)


def _one(line: str) -> LaunchPlan | Crashed:
    if line.startswith('{"kind":'):
        return Crashed.model_validate_json(line)
    return LaunchPlan.model_validate_json(line)


def _each(asked: dict[str, str], stop: Stop) -> bool:
    """Ask a process; returns whether it found something for each case, or one thing for all."""
    limit_s = PATIENCE * RECORD_TIMEOUT_S
    with Worker(CHILD, server=server_of(CHILD)) as worker:
        worker.ask(asked, limit_s, stop)
        try:
            for report in worker.reports():
                return bool(report["each"])
            end = worker.finish()
        except StepTimeout:
            raise AstraError(f"recording launch plans took more than {limit_s:.0f} s") from None
    raise AstraError(f"the process that records launch plans was {signal_name(end.returncode)}")
