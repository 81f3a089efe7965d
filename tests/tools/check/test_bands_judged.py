"""Edits of shipped baselines that round some columns in another way, by a whole first check."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.checker import Checker
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Correct, Device, Wrong
from tests.small_tasks import within

pytestmark = pytest.mark.second_tier
EDITS = {
    "moe_sum_reduce": (
        "low.item[i] = from_float<__nv_bfloat16>(sums[i] * scale);",
        "low.item[i] = i ? from_float<__nv_bfloat16>(sums[i] * scale)"
        " : __float2bfloat16_rz(sums[i] * scale);",
    ),
    "silu_and_mul_group_quant_fp8": (
        "result.item[i] = from_float(silu(to_float(x.item[i])) * to_float(y.item[i]));",
        "const float exact = silu(to_float(x.item[i])) * to_float(y.item[i]);"
        " result.item[i] = i ? from_float(exact) : __float2bfloat16_rz(exact);",
    ),
    "per_token_group_quant_fp8": (
        "to[index * kVector + i] = __nv_fp8_e4m3(",
        "to[index * kVector + i] = __nv_fp8_e4m3("
        "((index * kVector + i) % 64 == 63 ? 0.97f : 1.0f) * ",
    ),
}
"""Every 16th column truncated; every 8th of the intermediate; every 64th code too small."""


@pytest.mark.parametrize("name", sorted(EDITS))
def test_columns_rounded_in_another_way_are_found_at_the_first_check(
    name: str, device: Device
) -> None:
    task, (old, new) = within(find_task(name), tokens=512), EDITS[name]
    assert old in task.baseline
    sources = [task.baseline, task.baseline.replace(old, new)]
    oracle = Oracle(task)
    try:
        checker = Checker(Runner(task, device), oracle)
        outcomes = []
        for source in sources:
            built = build(task, source, device)
            assert isinstance(built, Build)
            outcomes.append(checker.check(built, ()))
    finally:
        oracle.close()
    (right, record), (wrong, _) = outcomes
    assert isinstance(right, Correct), right
    assert all(share < 0.25 for share in record.band_shares.values()), record.band_shares
    assert isinstance(wrong, Wrong), wrong
    assert wrong.reason == "precision" or wrong.argument == "output_s", wrong
