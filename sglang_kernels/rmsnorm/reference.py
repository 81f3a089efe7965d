"""The truth of rmsnorm, in float64: each row over its root mean square, times the weight."""

from __future__ import annotations

from typing import Any

import torch

FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, h] of the case's family, and a normal weight [h]."""
    tokens, h = case.dims["tokens"], case.dims["h"]
    return {
        "input": case.draw(generator, (tokens, h)),
        "weight": torch.randn(h, generator=generator).to(case.dtype),
    }


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """out [tokens, h], float64; `eps` is the launcher's scalar. A row whose squares overflow fp32
    does so here, as upstream: its scale is zero."""
    return {"out": inputs["input"].double() * _scale(inputs) * inputs["weight"].double()}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """|out|: nothing cancels in it. And what float32 takes for zero of a product of any two
    factors, as often as the third has it."""
    sizes, scale, weight = inputs["input"].double().abs(), _scale(inputs), inputs["weight"].double()
    lost = FLUSHED * ((1 + scale) * (1 + weight.abs()) + sizes)
    return {"out": sizes * scale * weight.abs() + lost}


def _scale(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """One over the root mean square of each row, [tokens, 1]."""
    values = inputs["input"].double()
    squares = values.square().sum(dim=-1, keepdim=True)
    squares = torch.where(squares > torch.finfo(torch.float32).max, torch.inf, squares)
    return torch.rsqrt(squares / values.shape[-1] + inputs["eps"])
