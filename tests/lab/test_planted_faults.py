"""Planted faults: drawn of every kind, legal, and wrong in their region and nowhere else."""

from __future__ import annotations

import random

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import check
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Correct, Wrong
from lab.planted_faults import MANY, Planter, faults, source


@pytest.mark.parametrize("name", task_names())
def test_faults_are_of_every_kind_and_come_with_a_legal_case(name: str) -> None:
    task = find_task(name)
    drawn = list(faults(task, 40, "1"))
    for fault in drawn:
        task.require_legal(fault.case)
        task.require_small(fault.case)
        assert f"!({fault.condition})" in source(task, fault) and fault.value in source(task, fault)
    kinds = {fault.kind for fault in drawn}
    values = any(arg.has_families and not arg.written for arg in task.args)
    assert ({"value window", "special value"} <= kinds) == values
    many = any(dim.max > MANY for dim in task.dims.values())
    assert ("many rows" in kinds) == many
    assert len(kinds) >= (6 if values else 3) + many
    assert ("stride" in kinds) == any("free" in (a.strides or ()) for a in task.args)
    assert drawn == list(faults(task, 40, "1")) != list(faults(task, 40, "2"))


@pytest.mark.second_tier
@pytest.mark.parametrize("kind", ["alignment", "value_window"])
def test_a_fault_shows_in_its_region_only(kind: str) -> None:
    task, device = find_task("merge_state_v2"), pick_device("virtual")
    fault = getattr(Planter(task, random.Random(3)), kind)()
    built = build(task, source(task, fault), device)
    assert isinstance(built, Build), built
    outside = fault.case.model_copy(
        update={"offsets": {}, "families": dict.fromkeys(fault.case.families, "denormal")}
    )
    oracle, runner = Oracle(task), Runner(task, device)
    inside, beyond = (
        check(runner, built, [Call(oracle_case)])
        for oracle_case in oracle.oracle_cases([fault.case, outside], Stop())
    )
    oracle.close()
    assert isinstance(inside, Wrong) and isinstance(beyond, Correct)
