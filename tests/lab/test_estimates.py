"""The estimate of scripted kernels, on cases that recorded runs hold too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.models.script import load_script
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import candidate_id
from astra_vgpu.ground.errors import BadInput
from lab.estimates import SCHEMA, estimates, read, shared_cases
from tests.recorded_files import EXAMPLES

RECORDED = EXAMPLES / "virtual/estimates.json"


MEASURED = ("fused_add_rmsnorm", "merge_state_v2", "silu_and_mul")
"""Scripted tasks whose scripts ran on a GPU."""


@pytest.mark.parametrize("name", MEASURED)
def test_cases_are_of_both_lists_with_the_weights_of_bench(name: str) -> None:
    task = find_task(name)
    shared = shared_cases(task)
    assert len(shared) >= 4 and all(row in task.bench for row in shared)
    assert {case.label for case, _ in shared} <= {case.label for case, _ in task.demo}


@pytest.mark.parametrize("name", MEASURED)
def test_recorded_estimates_are_of_todays_scripts(name: str) -> None:
    script = load_script(find_task(name))
    sources = {kernel.name: script.sources[kernel.name] for kernel in script.kernels()}
    mine = [one for one in read(RECORDED).estimates if one.task == name]
    assert len(mine) >= 4
    for one in mine:
        assert one.candidate == candidate_id(sources[one.file])


@pytest.mark.in_full
@pytest.mark.second_tier
def test_kernels_that_do_not_build_are_left_out() -> None:
    task = find_task("silu_and_mul")
    small = task.model_copy(update={"demo": task.demo[:1]})
    found = {one.file: one for one in estimates(small, virtual_device("h200"))}
    assert "split_rows.cu" not in found and "fitted.cu" in found
    assert all(len(one.cases) == 1 and one.cases[0].ratio > 0.9 for one in found.values())


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("", "[]", json.dumps({"schema": "x"}), json.dumps({"schema": SCHEMA})):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"a\.json"):
            read(path)
