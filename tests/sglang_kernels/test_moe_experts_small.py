"""The task moe_experts_small: gate and up are halves of w13, h is rounded, results are weighted;
its script is what its files say, and its timed cases are those that are served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from astra_chat.models.script import load_script
from astra_chat.tools.runners.indices import draw_indices
from astra_chat.tools.runners.values import DrawnCase
from astra_chat.tools.task.folder import find_task
from tests.sglang_kernels import shipped

TASK = find_task("moe_experts_small")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)
REFERENCE = shipped.reference(TASK)


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)


def call(gates: list[float], ups: list[float], weights: list[float]) -> Any:
    """A call of one token with x = e0, an expert for each gate: h is the gate's silu times up, and
    every result is the weighted sum of h."""
    experts, hidden, inner = len(gates), 8, 8
    w13 = torch.zeros(experts, 2 * inner, hidden, dtype=torch.bfloat16)
    w13[:, 0, 0], w13[:, inner, 0] = torch.tensor(gates), torch.tensor(ups)
    w2 = torch.zeros(experts, hidden, inner, dtype=torch.bfloat16)
    w2[:, :, 0] = 1.0
    x = torch.zeros(1, hidden, dtype=torch.bfloat16)
    x[0, 0] = 1.0
    return {
        "hidden_states": x,
        "w13": w13,
        "w2": w2,
        "topk_weights": torch.tensor([weights]),
        "topk_ids": torch.arange(experts, dtype=torch.int32)[None],
    }


def test_the_first_half_of_w13_is_the_gate_and_h_is_bfloat16() -> None:
    out = REFERENCE.reference(call([2.0], [0.5], [1.0]))["out"]
    h = torch.tensor(2.0 * 0.5 / (1.0 + 0.1353352832366127))
    assert out.tolist() == [[float(h.bfloat16())] * 8] and float(h) != float(h.bfloat16())


def test_results_of_experts_are_weighted_and_terms_are_absolute() -> None:
    inputs = call([1.0, 1.0], [1.0, -1.0], [0.75, 0.25])
    h = float(torch.tensor(0.7310585786300049).bfloat16())
    assert REFERENCE.reference(inputs)["out"][0].tolist() == [0.5 * h] * 8
    assert REFERENCE.terms(inputs)["out"][0].tolist() == pytest.approx([h] * 8, rel=1e-6)


def test_an_h_at_a_midpoint_may_be_either_neighbour() -> None:
    """silu(64) is 64 in float32, and the product with up in the middle of two bfloat16."""
    inputs = call([64.0], [1.0], [1.0])
    inputs["w13"][0, 8, 1] = 2.0**-8
    inputs["hidden_states"][0, 1] = 1.0
    band = (32 + 4 * 8**0.5) * 2.0**-24
    assert REFERENCE.terms(inputs)["out"][0, 0] * band == pytest.approx(0.5, rel=0.01)


def test_further_experts_hold_other_weights() -> None:
    dims = {"tokens": 2, "hidden": 16, "intermediate": 8, "experts": 128, "topk": 2}
    case = DrawnCase(dims, torch.bfloat16, "normal")
    w13 = REFERENCE.make_inputs(case, torch.Generator().manual_seed(3))["w13"]
    assert len(w13) == 128 and len(w13.flatten(1).unique(dim=0)) == 128


def test_a_token_has_no_expert_twice() -> None:
    ids = next(arg for arg in TASK.args if arg.name == "topk_ids")
    for case, _ in TASK.bench:
        drawn = draw_indices(ids, case, torch.Generator().manual_seed(1))
        assert all(len(set(row)) == 8 for row in drawn.tolist())


def test_served_experts_are_timed_by_few_tokens() -> None:
    """Qwen3-30B-A3B's weigh most."""
    assert {c.dims["tokens"] for c, _ in TASK.bench} == {1, 2, 4, 8, 16}
    qwen = sum(weight for case, weight in TASK.bench if case.dims["intermediate"] == 768)
    assert qwen >= 0.6 * sum(weight for _, weight in TASK.bench)
    assert {c.dims["experts"] for c, _ in TASK.bench} == {128, 256}
