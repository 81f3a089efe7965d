"""Launch plans of many cases, recorded in a process of their own.

To record a thousand takes seconds of Python, in which the judge's other threads would wait for the
interpreter: those that compare results. What is recorded depends on the seed only.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.entropy import Seed
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.process import RECORD_TIMEOUT_S
from astra_chat.tools.plan.record import Outcome, record_each
from astra_chat.tools.system.background import begins_ahead
from astra_chat.tools.system.fork_servers import server_of
from astra_chat.tools.system.subprocesses import StepTimeout, Stop, Worker, signal_name
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case, Crashed, Device, Refused, TimedOut
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.gpu_specs import spec

CHILD = "astra_chat.tools.runners.recorded_plans"
MANY = 64
"""Cases from which on a process of their own is worth its start."""
PATIENCE = 10.0
"""The process's limit of time over that of a recorder."""
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(
    Annotated[Refused | Crashed | TimedOut, Field(discriminator="kind")]
)
Found = tuple[LaunchPlan | Crashed, ...] | Outcome


def recorded(
    build: Build, task: Task, cases: Sequence[Case], device: Device, seed: Seed, stop: Stop
) -> Found:
    """What `record_each` finds with draws from `seed`, and raises; of many cases apart, where this
    machine has cores for it and starts such processes quickly."""
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
