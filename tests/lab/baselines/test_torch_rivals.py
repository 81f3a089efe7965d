"""Operators of PyTorch as rivals: their results, what is made of their times, and what is said."""

from __future__ import annotations

import sys

import pytest

from astra_chat.tools.build.nvcc import Build, build_all
from astra_chat.tools.system.devices import cuda_device, virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import AstraError
from lab.baselines.beside import torch_side
from lab.baselines.torch_child import OPERATORS, drawn, fault, truth, values_of
from lab.baselines.torch_rivals import IN_TORCH, _run, measured, timed_beside_torch

SMALL = {
    "m": 3,
    "n": 40,
    "k": 64,
    "tokens": 5,
    "h": 128,
    "hidden": 128,
    "experts": 32,
    "groups": 4,
    "topk_groups": 2,
    "topk": 4,
    "requests": 3,
    "kv_heads": 2,
    "group": 4,
    "head_dim": 128,
    "page_size": 16,
    "max_pages": 3,
    "other_pages": 2,
    "spread": 40,
    "intermediate": 64,
    "d": 64,
    "vocab": 96,
}


def small(task: str) -> Case:
    return Case(dims={name: SMALL[name] for name in find_task(task).dims}, dtype="bfloat16")


def test_each_operator_computes_what_the_contract_says() -> None:
    for name, rivals in IN_TORCH.items():
        task, case = find_task(name), small(name)
        tensors = drawn(task, case, "cpu")
        wanted = truth(task, case, tensors)
        assert set(wanted) == {arg.name for arg in task.args if arg.written}
        for rival in rivals:
            found = OPERATORS[rival.name](tensors, values_of(task, case))
            assert fault(task, case, wanted, tensors, found) == ""
            moved = {name: result + 1 for name, result in found.items()}
            assert fault(task, case, wanted, tensors, moved) != ""


def test_every_operator_has_a_side_of_todays() -> None:
    assert {rival.name for some in IN_TORCH.values() for rival in some} == set(OPERATORS)
    for name, rivals in IN_TORCH.items():
        for rival in rivals:
            side = torch_side(find_task(name), rival)
            assert (side.kernel.tier, side.operator, side.source) == ("today", rival.name, "")


def test_times_are_medians_and_the_ratio_has_the_interval_of_its_blocks() -> None:
    task, case = find_task("gemv_bf16"), find_task("gemv_bf16").bench[0][0]
    blocks = [[12.0 + wobble, 8.0] for wobble in (-0.2, 0.0, 0.2)]
    found = {"cold_us": blocks, "warm_us": [[6.0, 5.0]] * 3, "event_us": [20.0, 16.0]}
    time = measured(task, virtual_device("h100"), case, 2.0, found)
    assert (time.baseline_us, time.median_us, time.weight, time.blocks) == (12.0, 8.0, 2.0, 3)
    assert time.ratio == pytest.approx(1.5, rel=1e-3)
    assert 1.4 < time.ratio_low < time.ratio < time.ratio_high < 1.6
    assert (time.baseline_warm_us, time.warm_us, time.event_us) == (6.0, 5.0, 16.0)
    assert 0 < time.percent_of_limit < 100


def test_a_process_that_fails_is_named_with_its_last_words() -> None:
    with pytest.raises(AstraError, match="torch-mm beside gemv_bf16 failed: no GPU there"):
        _run([sys.executable, "-c", "exit('no GPU there')"], "torch-mm beside gemv_bf16")


@pytest.mark.gpu
@pytest.mark.parametrize("name", IN_TORCH)
def test_a_baseline_is_timed_beside_its_operators(name: str) -> None:
    task, device = find_task(name), cuda_device(0)
    built = build_all(task, [task.baseline], device)[0]
    assert isinstance(built, Build)
    for rival in IN_TORCH[name]:
        found = timed_beside_torch(task, rival.name, built, task.bench[:2], device, Stop())
        assert isinstance(found, tuple), found
        assert [one.case for one in found] == [case for case, _ in task.bench[:2]]
        assert all(one.ratio_low <= one.ratio <= one.ratio_high for one in found)
