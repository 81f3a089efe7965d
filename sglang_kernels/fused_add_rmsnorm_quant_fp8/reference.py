"""The truth of fused_add_rmsnorm_quant_fp8, in float64: nothing is rounded in between."""

from __future__ import annotations

from typing import Any

import torch

LARGEST = 448.0
MOST = 1e16
"""The largest legal number."""
LEAST = 2.0**-126
"""Fast maths takes smaller numbers for zero, scales too."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input and residual [tokens, h] of the case's family, finite, and a normal weight [h]; of
    five rows or more every fourth is zero."""
    shape = (case.dims["tokens"], case.dims["h"])
    most = min(MOST, torch.finfo(case.dtype).max)
    drawn = {}
    for name in ("input", "residual"):
        drawn[name] = case.draw(generator, shape).nan_to_num(nan=0.0).clamp(-most, most)
        if shape[0] >= 5:
            drawn[name][1::4] = 0
    return {**drawn, "weight": torch.randn(shape[1], generator=generator).to(case.dtype)}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """output_q [tokens, h]: what is to be coded, in units of the scale, not yet rounded; output_s
    [tokens, 1]; residual [tokens, h]. `eps` is the launcher's scalar."""
    total = inputs["input"].double() + inputs["residual"].double()
    counted = _flushed(_flushed(inputs["input"].double()) + _flushed(inputs["residual"].double()))
    scale = torch.rsqrt(counted.square().mean(dim=-1, keepdim=True) + inputs["eps"])
    coded = _coded(counted * scale * inputs["weight"].double())
    return {**coded, "residual": total}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The results themselves: nothing cancels in them."""
    return {name: value.abs() for name, value in reference(inputs).items()}


def rounded(inputs: dict[str, torch.Tensor], shift: float) -> dict[str, torch.Tensor]:
    """Results of the two kernels in sequence: y is moved by this share of itself, as float32 may,
    and rounded to T."""
    given = reference(inputs)
    values = given["output_q"] * given["output_s"] * (1 + shift)
    coded = _coded(values.to(inputs["input"].dtype).double())
    return {**coded, "residual": given["residual"]}


def _coded(values: torch.Tensor) -> dict[str, torch.Tensor]:
    """Codes and scales of y [tokens, h]."""
    scales = _flushed(values.abs().amax(dim=-1, keepdim=True) / LARGEST)
    inverse = torch.where(scales > 0, 1 / scales, torch.zeros_like(scales))
    return {"output_q": values * inverse, "output_s": scales}


def _flushed(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values.abs() < LEAST, torch.zeros_like(values), values)
