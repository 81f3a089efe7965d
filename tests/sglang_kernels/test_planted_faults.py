"""Honest variants of a shipped task pass its check cases, and the planted faults of faults.toml do
not; what serving asks for most weighs most in the timed cases."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import DTypeName
from tests.contracts.planted import (
    judged,
    narrowed,
    planted,
    require_caught,
    require_honest,
    variants,
    verdicts,
)

FAULTS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text())
NARROWED: Mapping[str, DTypeName] = {
    "fused_add_rmsnorm_quant_fp8": "bfloat16",
    "per_token_group_quant_fp8": "bfloat16",
    "per_token_quant_fp8": "bfloat16",
}
"""Tasks with the dtype that alone the faults are planted in."""
SERVED = (
    "fused_add_rmsnorm_quant_fp8",
    "gelu_tanh_and_mul",
    "moe_align_block_size",
    "moe_sum_reduce",
    "per_token_group_quant_fp8",
    "per_token_quant_fp8",
    "qk_norm_rope_kv_append",
    "qk_rmsnorm_rope",
    "rmsnorm",
    "rope_and_kv_write",
    "rotary_embedding",
    "silu_and_mul_group_quant_fp8",
    "topk_softmax",
)


@pytest.mark.second_tier
@pytest.mark.parametrize("device", ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("task", FAULTS)
def test_honest_variants_pass_and_planted_faults_fail(task: str, device: str) -> None:
    shipped, machine = find_task(task), pick_device(device)
    edits = {name: (old, new) for name, (old, new) in FAULTS[task].items()}
    if task not in NARROWED:
        judged(shipped, planted(shipped.baseline, edits), machine)
        return
    narrow, baseline = narrowed(shipped, NARROWED[task])
    faults = planted(baseline, edits)
    require_honest(shipped, verdicts(shipped, variants(task), machine))
    require_caught(faults, verdicts(narrow, faults, machine))


def test_served_batches_weigh_most() -> None:
    """Decode steps are as many as SGLang's CUDA graphs hold; prefills are few."""
    for task in SERVED:
        bench = find_task(task).bench
        few = sum(weight for case, weight in bench if case.dims["tokens"] <= 256)
        assert few > 0.7 * sum(weight for _, weight in bench), task
        assert {case.dims["tokens"] for case, _ in bench} >= {1, 8, 16, 32, 64, 128, 256}, task
