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
    return _coded(_activated(inputs))


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """y in units of its scale, more where exp(-gate) outweighs 1: a float32 exponential errs by 1 +
    |gate| ulps."""
    scales = reference(inputs)["output_s"]
    sizes = _activated(inputs).abs() * _sensitivity(inputs)
    groups = sizes.reshape(len(sizes), -1, GROUP)
    codes = (groups / scales[..., None]).reshape(sizes.shape)
    largest = groups.amax(dim=-1).clamp(min=LEAST_MAXIMUM)
    return {"output_q": codes, "output_s": largest / LARGEST}


def rounded(inputs: dict[str, torch.Tensor], shift: float) -> dict[str, torch.Tensor]:
    """Results of the two kernels in sequence: y is moved by this share of its terms, as float32
    may, and rounded to T."""
    moved = _activated(inputs) * (1 + shift * _sensitivity(inputs))
    return _coded(moved.to(inputs["input"].dtype).double())


def _activated(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns y [tokens, d]."""
    gate, up = inputs["input"].double().chunk(2, dim=-1)
    return gate / (1 + torch.exp(-gate)) * up


def _sensitivity(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the sensitivity of y to roundings, [tokens, d]."""
    gate, _ = inputs["input"].double().chunk(2, dim=-1)
    return 1 + gate.abs() * torch.sigmoid(-gate)


def _coded(values: torch.Tensor) -> dict[str, torch.Tensor]:
    groups = values.reshape(len(values), -1, GROUP)
    largest = groups.abs().amax(dim=-1).clamp(min=LEAST_MAXIMUM)
    codes = groups * (LARGEST / largest)[..., None]
    return {"output_q": codes.reshape(values.shape), "output_s": largest / LARGEST}
