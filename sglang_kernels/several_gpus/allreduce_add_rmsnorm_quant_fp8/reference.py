"""The truth of allreduce_add_rmsnorm_quant_fp8, in float64: nothing is rounded in between."""

from __future__ import annotations

from typing import Any

import torch

LARGEST = 448.0


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw inputs [ranks, tokens, h] and residual [tokens, h] of the case's family, and a normal
    weight [h]; of five rows or more every fourth is zero."""
    shape = (case.dims["tokens"], case.dims["h"])
    inputs = case.draw(generator, (case.dims["ranks"], *shape))
    residual = case.draw(generator, shape)
    if shape[0] >= 5:
        inputs[:, 1::4] = 0
        residual[1::4] = 0
    weight = torch.randn(shape[1], generator=generator).to(case.dtype)
    return {"inputs": inputs, "residual": residual, "weight": weight}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """residual [tokens, h]; output_q [tokens, h]: what is to be coded, in units of the scale, not
    yet rounded; output_s [tokens, 1]. Every rank must hold the same."""
    total = inputs["inputs"].double().sum(dim=0) + inputs["residual"].double()
    factor = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + inputs["eps"])
    values = total * factor * inputs["weight"].double()
    scales = values.abs().amax(dim=-1, keepdim=True) / LARGEST
    inverse = torch.where(scales > 0, 1 / scales, torch.zeros_like(scales))
    return {"residual": total, "output_q": values * inverse, "output_s": scales}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Sums of what is added up, without signs: float32 rounds each sum to its own size."""
    added = inputs["inputs"].double().abs().sum(dim=0) + inputs["residual"].double().abs()
    return {"residual": added}
