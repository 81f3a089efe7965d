"""The truth of silu_and_mul, in float64: gate first, up second, one row a token."""

from __future__ import annotations

from typing import Any

import torch

FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, 2 * d] in the case's dtype and value family."""
    tokens, d = case.dims["tokens"], case.dims["d"]
    return {"input": case.draw(generator, (tokens, 2 * d))}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """out [tokens, d], float64. The formula as it stands: silu(-inf) is NaN, as upstream's is."""
    gate, up = inputs["input"].double().chunk(2, dim=-1)
    return {"out": gate / (1 + torch.exp(-gate)) * up}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """|out|, more where exp(-gate) outweighs 1: a float32 exponential errs by 1 + |gate| ulps. And
    what float32 takes for zero of a product of any two factors, as often as the third has it."""
    gate, up = inputs["input"].double().chunk(2, dim=-1)
    weight = torch.sigmoid(gate)
    size = gate.abs() * weight * (1 + gate.abs() * torch.sigmoid(-gate))
    return {"out": size * up.abs() + FLUSHED * (1 + gate.abs()) * (1 + up.abs())}
