"""The truth of per_token_quant_fp8, in float64."""

from __future__ import annotations

from typing import Any

import torch

LARGEST = 448.0
LEAST = 2.0**-126
"""Fast maths takes smaller numbers for zero, scales too."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, hidden]; every fourth row of five or more is zero."""
    tokens, hidden = case.dims["tokens"], case.dims["hidden"]
    drawn = case.draw(generator, (tokens, hidden))
    if tokens >= 5:
        drawn[1::4] = 0
    return {"input": drawn}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """output_q [tokens, hidden]: what is to be coded, in units of the scale, not yet rounded;
    output_s [tokens, 1]."""
    values = _flushed(inputs["input"].double())
    largest = values.abs().nan_to_num(nan=0.0, posinf=torch.inf).amax(dim=1, keepdim=True)
    scales = _flushed(largest / LARGEST)
    inverse = torch.where(scales > 0, 1 / scales, torch.zeros_like(scales))
    codes = (values * inverse).nan_to_num(nan=LARGEST).clamp(-LARGEST, LARGEST)
    return {"output_q": codes, "output_s": scales}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The results themselves: a maximum and a quotient."""
    return {name: value.abs() for name, value in reference(inputs).items()}


def _flushed(values: torch.Tensor) -> torch.Tensor:
    return torch.where(values.abs() < LEAST, torch.zeros_like(values), values)
