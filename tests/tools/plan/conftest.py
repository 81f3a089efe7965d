"""One library with all launchers of launchers.cu, built once, and what records one of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.record import record
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.types import Case, Crashed, Device, Refused, TimedOut
from astra_vgpu.ground.gpu_specs import spec

HERE = Path(__file__).parent
VIRTUAL = Device(kind="virtual", name="virtual GPU", arch="sm_90", spec="h200")
TASK = find_task("silu_and_mul")
CASES = (
    Case(dims={"tokens": 3, "d": 24}, dtype="float16"),
    Case(dims={"tokens": 5, "d": 2304}, dtype="bfloat16", offset=1),
)
Recorded = tuple[LaunchPlan, ...] | Refused | Crashed | TimedOut
Record = Callable[[str], Recorded]


@pytest.fixture(scope="session")
def built() -> Build:
    found = build(TASK, (HERE / "launchers.cu").read_text(), VIRTUAL)
    assert isinstance(found, Build), found
    return found


@pytest.fixture
def recorded(built: Build) -> Record:
    """Record the launcher of that name on CASES."""

    def run(entry: str) -> Recorded:
        task: Task = TASK.model_copy(update={"entry": entry})
        return record(built, task, CASES, spec("h200"), random.Random(7))

    return run
