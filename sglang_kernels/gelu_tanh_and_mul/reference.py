"""The truth of gelu_tanh_and_mul, in float64: gate first, up second, one row a token."""

from __future__ import annotations

import math
from typing import Any

import torch

FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, 2 * d] in the case's dtype and value family."""
    tokens, d = case.dims["tokens"], case.dims["d"]
    return {"input": case.draw(generator, (tokens, 2 * d))}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """out [tokens, d], float64. (1 + tanh(x)) / 2 as 1 / (1 + exp(-2x)), which loses nothing where
    x is negative; of -inf it is NaN, as upstream's is."""
    gate, up = inputs["input"].double().chunk(2, dim=-1)
    inner = math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    return {"out": gate / (1 + torch.exp(-2 * inner)) * up}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """|out|, more where exp(-2 inner) outweighs 1: a float32 exponential errs by 1 + |2 inner|
    ulps. And what float32 takes for zero of a product of any two factors, as often as the third
    has it."""
    gate, up = inputs["input"].double().chunk(2, dim=-1)
    inner = 2 * math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3)
    weight = torch.sigmoid(inner)
    size = gate.abs() * weight * (1 + inner.abs() * torch.sigmoid(-inner))
    return {"out": size * up.abs() + FLUSHED * (1 + gate.abs()) * (1 + up.abs())}
