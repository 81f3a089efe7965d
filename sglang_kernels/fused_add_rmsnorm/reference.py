"""The truth of fused_add_rmsnorm, in float64: add, then scale by the inverse root mean square."""

from __future__ import annotations

from typing import Any

import torch


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
    total = _within_fp32(inputs["input"].double() + inputs["residual"].double())
    squares = _within_fp32(total.square().sum(dim=-1, keepdim=True))
    scale = torch.rsqrt(squares / total.shape[-1] + inputs["eps"])
    return {"input": total * scale * inputs["weight"].double(), "residual": total}


def _within_fp32(values: torch.Tensor) -> torch.Tensor:
    """What float32 cannot hold is infinite; the rest keeps float64's precision."""
    limit = torch.finfo(torch.float32).max
    return torch.where(values.abs() > limit, values.sign() * torch.inf, values)
