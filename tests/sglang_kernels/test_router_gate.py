"""The task router_gate: near-ties may fall either way and nothing else may, and its script is what
its files say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import find_task
from tests.sglang_kernels import shipped

TASK = find_task("router_gate")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)
REFERENCE = shipped.reference(TASK)


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)


def gated(logits: list[float], bias: list[float], groups: int, kept: int, topk: int) -> Any:
    """A call of one token whose logits are these, as long as bfloat16 holds them, and its truth."""
    inputs: dict[str, Any] = {
        "hidden_states": torch.ones(1, 8, dtype=torch.bfloat16),
        "router_weight": torch.zeros(len(logits), 8, dtype=torch.bfloat16),
        "correction_bias": torch.tensor(bias),
        "groups": groups,
        "topk_groups": kept,
        "topk": topk,
        "routed_scaling_factor": 2.5,
    }
    inputs["router_weight"][:, 0] = torch.tensor(logits)
    return inputs, REFERENCE.reference(inputs)


def accepted(inputs: Any, ids: list[int], weighed: list[int] | None = None) -> str | None:
    """What is said of these experts with the weights of these others, or with their own."""
    scores = torch.sigmoid(inputs["router_weight"][:, 0].double())[weighed or ids]
    weights = 2.5 * scores / scores.sum()
    outputs = {"topk_ids": torch.tensor([ids], dtype=torch.int32), "topk_weights": weights[None]}
    found = REFERENCE.accept(inputs, outputs)
    return found[0] if found else None


def test_the_reference_chooses_groups_by_their_two_best() -> None:
    inputs, truth = gated([4, -4, 1, 1, 2, -4, -4, -4], [0.0] * 8, 4, 1, 2)
    assert truth["topk_ids"].tolist() == [[2, 3]]
    assert truth["topk_weights"].tolist() == [[1.25, 1.25]]
    assert accepted(inputs, [2, 3]) is accepted(inputs, [3, 2]) is None
    assert accepted(inputs, [0, 4]) == "this expert is not among the chosen groups' best"


def test_groups_may_fall_either_way_but_no_more_of_them_are_chosen() -> None:
    inputs, _ = gated([1, 0, 1, 0, -4, -4], [0.0] * 6, 3, 1, 2)
    assert accepted(inputs, [0, 1]) is accepted(inputs, [2, 3]) is None
    assert accepted(inputs, [0, 2]) == "experts of more than 1 groups"


def test_near_ties_may_fall_either_way_and_others_not() -> None:
    """Scores of two experts differ by less than the sums' roundings; that of the third by more."""
    inputs, _ = gated([1, 1, 1, 1], [0.0, 5e-8, 1e-4, -1.0], 1, 1, 2)
    assert accepted(inputs, [2, 0]) is accepted(inputs, [2, 1]) is None
    assert accepted(inputs, [0, 2]) == "a better expert is behind this one"
    assert accepted(inputs, [1, 0]) == "a better expert was left out"
    assert accepted(inputs, [2, 2]) == "this expert was chosen before"
    assert accepted(inputs, [2, 3]) == "this expert is not among the chosen groups' best"


def test_weights_belong_to_the_experts_that_were_chosen() -> None:
    """Experts 0 and 1 tie by their biases; their scores differ."""
    inputs, _ = gated([2, -2, 3, -8], [0.0, math.tanh(1), 1.0, -9.0], 1, 1, 2)
    assert accepted(inputs, [2, 0]) is accepted(inputs, [2, 1]) is None
    for ids, weighed in (([2, 0], [2, 1]), ([2, 1], [2, 0])):
        assert accepted(inputs, ids, weighed) == "this is not the weight of the chosen expert"


def test_served_routers_are_timed_by_few_tokens() -> None:
    """DeepSeek V3's weighs most; Kimi K2 and GLM 4.5 have no groups."""
    assert {c.dims["tokens"] for c, _ in TASK.bench} == {1, 2, 4, 8, 16, 32, 64}
    grouped = sum(weight for case, weight in TASK.bench if case.dims["groups"] == 8)
    assert grouped > 0.6 * sum(weight for _, weight in TASK.bench)
    assert {c.dims["experts"] for c, _ in TASK.bench} == {128, 160, 256, 384}
