"""The truth of fused_add_rmsnorm_batch_invariant, in float64, of one row as of many: add,
then scale by the inverse root mean square."""

from __future__ import annotations

from typing import Any

import torch

FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input and residual [tokens, h] of the case's family, and a normal weight [h]."""
    shape = (case.dims["tokens"], case.dims["h"])
    return {
        "input": case.draw(generator, shape),
        "residual": case.draw(generator, shape),
        "weight": torch.randn(shape[1], generator=generator).to(case.dtype),
    }


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """input and residual [tokens, h], float64; `eps` is the launcher's scalar. A row that overflows
    fp32 does so here, as upstream: its scale is zero."""
    total, scale = _total_and_scale(inputs)
    return {"input": total * scale * inputs["weight"].double(), "residual": total}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """|residual| and |input|: float32 rounds the sum to its own size, so nothing cancels later. And
    what float32 takes for zero of a product of any two factors, as often as the third has it."""
    total, scale = _total_and_scale(inputs)
    weight = inputs["weight"].double().abs()
    lost = FLUSHED * ((1 + scale) * (1 + weight) + total.abs())
    return {"input": total.abs() * scale * weight + lost, "residual": total.abs() + FLUSHED}


def _total_and_scale(inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The sum [tokens, h], and one over its root mean square [tokens, 1]."""
    total = _within_fp32(inputs["input"].double() + inputs["residual"].double())
    squares = _within_fp32(total.square().sum(dim=-1, keepdim=True))
    return total, torch.rsqrt(squares / total.shape[-1] + inputs["eps"])


def _within_fp32(values: torch.Tensor) -> torch.Tensor:
    """What float32 cannot hold is infinite; the rest keeps float64's precision."""
    limit = torch.finfo(torch.float32).max
    return torch.where(values.abs() > limit, values.sign() * torch.inf, values)
