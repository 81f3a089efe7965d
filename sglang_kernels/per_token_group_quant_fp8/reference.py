"""The truth of per_token_group_quant_fp8, in float64."""

from __future__ import annotations

from typing import Any

import torch

GROUP = 128
LARGEST = 448.0
LEAST_MAXIMUM = 1e-10
MOST = 1e37
"""The largest legal number."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw input [tokens, hidden], finite; of some tokens a group is zeros, or a single number."""
    tokens, hidden = case.dims["tokens"], case.dims["hidden"]
    most = min(MOST, torch.finfo(case.dtype).max)
    drawn = case.draw(generator, (tokens, hidden)).nan_to_num(nan=0.0).clamp(-most, most)
    drawn[2::5, :GROUP] = 0
    drawn[3::5, -GROUP:-1] = 0
    return {"input": drawn}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """output_q [tokens, hidden]: what is to be coded, in units of the scale, not yet rounded;
    output_s [tokens, hidden // 128]."""
    values = inputs["input"].double()
    groups = values.reshape(len(values), -1, GROUP)
    largest = groups.abs().amax(dim=-1).clamp(min=LEAST_MAXIMUM)
    codes = groups * (LARGEST / largest)[..., None]
    return {"output_q": codes.reshape(values.shape), "output_s": largest / LARGEST}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The results themselves: a maximum and a quotient."""
    return {name: value.abs() for name, value in reference(inputs).items()}
