"""The truth of moe_sum_reduce, in float64: a token's rows of all its experts, added and scaled."""

from __future__ import annotations

from typing import Any

import torch

FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, experts, hidden] in the case's dtype and value family."""
    dims = case.dims
    return {"input": case.draw(generator, (dims["tokens"], dims["experts"], dims["hidden"]))}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """output [tokens, hidden], float64; `scale` is the launcher's scalar."""
    return {"output": inputs["input"].double().sum(dim=1) * inputs["scale"]}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The absolute sum of what is added, each at least what float32 takes for zero."""
    sizes = inputs["input"].double().abs() + FLUSHED
    return {"output": sizes.sum(dim=1) * inputs["scale"].abs()}
