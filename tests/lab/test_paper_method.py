"""The paper's way of timing: its cases, and a loop that fits every contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.system.devices import cuda_device, virtual_device
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import BadInput
from lab.baselines.beside import best_side, tier_side
from lab.paper_method import PAPER_SHAPES, SCHEMA, looped, measure, paper_cases, read
from tests.recorded_files import EXAMPLES


@pytest.mark.parametrize("name", PAPER_SHAPES)
def test_the_papers_cases_are_bench_cases(name: str) -> None:
    task = find_task(name)
    labels = {case.label for case, _ in task.bench}
    assert {case.label for case in paper_cases(task)} <= labels and len(paper_cases(task)) == 4


def test_the_loop_compiles_round_a_contract_with_strides_and_scalars() -> None:
    task = find_task("fused_add_rmsnorm")
    (built,) = build_all(task, [looped(task, task.baseline)], virtual_device("h200"))
    assert isinstance(built, Build), built


@pytest.mark.parametrize("gpu", ["h200", "h100"])
def test_recorded_times_are_of_todays_kernels_and_whole(gpu: str) -> None:
    found = read(EXAMPLES / gpu / "paper-method.json")
    assert found.device.spec == gpu
    for name in PAPER_SHAPES:
        task, labels = find_task(name), {case.label for case in paper_cases(find_task(name))}
        mine = [t for t in found.times if t.task == name]
        for side in (tier_side(task, "paper"), tier_side(task, "sglang"), best_side(task)):
            times = [t for t in mine if t.kernel == side.kernel.name]
            assert {t.content for t in times} == {side.kernel.content}
        for kernel in {t.kernel for t in mine}:
            assert {t.case.label for t in mine if t.kernel == kernel} == labels


def test_files_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("[]", "{", json.dumps({"schema": "other"}), json.dumps({"schema": SCHEMA})):
        path.write_text(text)
        with pytest.raises(BadInput, match=r"a\.json"):
            read(path)


@pytest.mark.gpu
def test_a_small_kernel_takes_microseconds() -> None:
    device = cuda_device(0)
    task = find_task("silu_and_mul")
    for one in measure(task, device, [("sglang", task.baseline)]):
        assert 0.5 < one.cold_us < 50 and 0.5 < one.median_us < 100
