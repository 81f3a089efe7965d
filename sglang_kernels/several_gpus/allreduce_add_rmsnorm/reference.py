"""The truth of allreduce_add_rmsnorm, in float64: add over the ranks, then normalise."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw inputs [ranks, tokens, h] and residual [tokens, h] of the case's family, and a normal
    weight [h]."""
    shape = (case.dims["tokens"], case.dims["h"])
    return {
        "inputs": case.draw(generator, (case.dims["ranks"], *shape)),
        "residual": case.draw(generator, shape),
        "weight": torch.randn(shape[1], generator=generator).to(case.dtype),
    }


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """residual and out [tokens, h], float64, as every rank must hold them."""
    total = inputs["inputs"].double().sum(dim=0) + inputs["residual"].double()
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + inputs["eps"])
    return {"residual": total, "out": total * scale * inputs["weight"].double()}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Sums of what is added up, without signs: float32 rounds each sum to its own size."""
    total = inputs["inputs"].double().sum(dim=0) + inputs["residual"].double()
    added = inputs["inputs"].double().abs().sum(dim=0) + inputs["residual"].double().abs()
    scale = torch.rsqrt(total.square().mean(dim=-1, keepdim=True) + inputs["eps"])
    return {"residual": added, "out": added * scale * inputs["weight"].double().abs()}
