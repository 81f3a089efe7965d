"""docs/own-kernel.md, where several results are right: its accept and canonical take every legal
result and no other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.astra_chat.test_own_kernel import DOCUMENT

GATING = torch.tensor([[1.0, 3.0, 3.0, 0.0]])


def documented(name: str) -> Callable[..., Any]:
    """The function of this name in the page's blocks of Python."""
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.DOTALL | re.MULTILINE)
    for block in blocks:
        if f"def {name}(" in block:
            exec(block, names)
    found: Callable[..., Any] = names[name]
    return found


@pytest.mark.parametrize(
    ("ids", "answer"),
    [
        ([1, 2, 0], None),
        ([2, 1, 0], None),
        ([2, 1, 3], ("not the next largest", ("topk_ids", 0, 2))),
        ([2, 2, 0], ("an expert chosen twice", ("topk_ids", 0, 0))),
        ([2, 1, 4], ("no expert", ("topk_ids", 0, 2))),
    ],
)
def test_accept_takes_any_of_equal_experts(ids: list[int], answer: object) -> None:
    outputs = {"topk_ids": torch.tensor([ids], dtype=torch.int32)}
    assert documented("accept")({"gating": GATING}, outputs) == answer


def test_canonical_forgets_the_order_and_the_tail_alone() -> None:
    """Tokens 0, 2 and 3 are expert 1's, token 1 is expert 0's; 4 fills up blocks of two."""
    inputs = {"topk_ids": torch.tensor([[1], [0], [1], [1]]), "experts": 2, "block_size": 2}

    def form(places: list[int], blocks: list[int]) -> list[list[int]]:
        outputs = {"sorted_token_ids": torch.tensor(places), "expert_ids": torch.tensor(blocks)}
        found = documented("canonical")(outputs, inputs)
        return [found[name].tolist() for name in outputs]

    usual = form([1, 4, 0, 2, 3, 4, 0], [0, 1, 1, 0])
    assert form([4, 1, 3, 4, 2, 0, 77], [0, 1, 1, -9]) == usual
    assert form([1, 0, 4, 2, 3, 4, 0], [0, 1, 1, 0]) != usual, "a token of the other expert"
    assert form([1, 4, 0, 2, 3, 4, 0], [0, 0, 1, 0]) != usual
