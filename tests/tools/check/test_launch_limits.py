"""Launches of calls that are too large to be run."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.launch_limits import MOST_BYTES, LargestCalls, largest_calls
from astra_chat.tools.judge import Judge
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Crashed

TASK = find_task("per_token_quant_fp8")
DEVICE = pick_device("virtual", "h200")


@pytest.mark.parametrize("name", task_names())
def test_each_dim_is_at_its_greatest_in_a_legal_call_that_a_gpu_holds(name: str) -> None:
    task = find_task(name)
    cases = list(largest_calls(task))
    for case in cases:
        task.require_legal(case)
    assert max(map(task.size_bytes, cases)) <= 2 * MOST_BYTES
    assert cases and {case.dtype for case in cases} == set(task.dtypes)
    for dim, extent in task.dims.items():
        assert max(case.dims[dim] for case in cases) > 0.25 * extent.max, dim


@pytest.mark.second_tier
def test_the_baseline_s_are_recorded_once() -> None:
    built = build(TASK, TASK.baseline, DEVICE)
    assert isinstance(built, Build)
    runner, largest = Runner(TASK, DEVICE), LargestCalls()
    cases = largest.of(runner, built)
    assert {1048576, 1} <= {case.dims["tokens"] for case in cases}
    assert largest.of(runner, built) is cases


@pytest.mark.second_tier
def test_a_grid_that_no_gpu_takes_is_found_though_no_check_case_is_so_large() -> None:
    """A second extent of the grid that holds eight tokens a block, up to 524,280 of them."""
    places = {
        "static_cast<int64_t>(blockIdx.x) * kWarps": "static_cast<int64_t>(blockIdx.y) * kWarps",
        "warp_a_token<T, kSize><<<blocks,": "warp_a_token<T, kSize><<<dim3(1, blocks),",
    }
    source = TASK.baseline
    for old, new in places.items():
        assert old in source
        source = source.replace(old, new)
    with Judge(TASK, DEVICE) as judge:
        outcome = judge.evaluate(source).outcome
    assert isinstance(outcome, Crashed) and outcome.case.dims["tokens"] > 524_280
    assert "CUDA error" in outcome.message
