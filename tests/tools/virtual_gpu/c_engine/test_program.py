"""The kernels of all tasks on both engines, with their own host code: bytes and counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task, task_names
from astra_vgpu.types import Engine

KERNELS = [
    (name, path.name)
    for name in task_names()
    for path in sorted(find_task(name).folder.glob("**/*.cu"))
    if path.parent == find_task(name).folder
]
CASES = 2


@pytest.mark.parametrize(("name", "file"), KERNELS)
@pytest.mark.second_tier
def test_a_task_s_kernel(name: str, file: str) -> None:
    task = find_task(name)
    built = build(task, (task.folder / file).read_text(), pick_device("virtual", None))
    assert isinstance(built, Build)
    smallest = sorted(task.check, key=lambda case: np.prod(list(case.dims.values())))
    oracle = Oracle(task)
    oracle_cases = oracle.oracle_cases(smallest[2 : 2 + CASES], Stop())
    found = {engine: list(_runs(task, built, oracle_cases, engine)) for engine in ("numpy", "c")}
    oracle.close()
    assert found["numpy"] == found["c"]


def _runs(task: Any, built: Build, oracle_cases: Any, engine: Engine) -> Iterator[Any]:
    device = pick_device("virtual", None)
    for run in Runner(task, device, engine=engine).run(built, oracle_cases, "time"):
        if not isinstance(run, CaseRun):
            yield run
            return
        assert not run.report.on_numpy
        outputs = [run.after(arg)[0].tobytes() for arg in task.args if arg.written]
        ordered = {"fresh_load_rounds", "block_load_lines"}  # the order of a block's warps differs
        counters = [
            {name: n for name, n in vars(launch.counters).items() if name not in ordered}
            for launch in run.report.launches
        ]
        yield outputs, [launch.kernel for launch in run.report.launches], counters
