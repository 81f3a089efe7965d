"""The truth of moe_sum_reduce, in float64: a token's rows of all its experts, added and scaled."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, experts, hidden] in the case's dtype and value family."""
    dims = case.dims
    return {"input": case.draw(generator, (dims["tokens"], dims["experts"], dims["hidden"]))}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """output [tokens, hidden], float64; `scale` is the launcher's scalar."""
    return {"output": inputs["input"].double().sum(dim=1) * inputs["scale"]}
