"""The truth of silu_and_mul_group_quant_fp8, in float64: nothing is rounded in between."""

from __future__ import annotations

from typing import Any

import torch

GROUP = 128
LARGEST = 448.0
LEAST_MAXIMUM = 1e-10
MOST = 240.0
"""The largest legal number."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, 2 * d], finite; of some tokens a group is zeros."""
    tokens, d = case.dims["tokens"], case.dims["d"]
    drawn = case.draw(generator, (tokens, 2 * d)).nan_to_num(nan=0.0).clamp(-MOST, MOST)
    drawn[2::5, :GROUP] = 0
    return {"input": drawn}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """output_q [tokens, d]: what is to be coded, in units of the scale, not yet rounded;
    output_s [tokens, d // 128]."""
    gate, up = inputs["input"].double().chunk(2, dim=-1)
    values = gate / (1 + torch.exp(-gate)) * up
    groups = values.reshape(len(values), -1, GROUP)
    largest = groups.abs().amax(dim=-1).clamp(min=LEAST_MAXIMUM)
    codes = groups * (LARGEST / largest)[..., None]
    return {"output_q": codes.reshape(values.shape), "output_s": largest / LARGEST}
