"""The truth of norm_in_place, in float64."""

from __future__ import annotations

from typing import Any

import torch

LARGEST = 1e18
"""Squares beyond overflow in fp32, and whether a kernel scales before it squares is its own
affair: no contract is meant there."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    x = case.draw(generator, (case.dims["rows"], case.dims["n"]))
    if x.dtype == torch.float32:
        x = torch.where(x.isinf(), x, x.clamp(-LARGEST, LARGEST))
    return {"x": x}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    x = inputs["x"].double()
    norms = (x.square().sum(dim=-1) + inputs["eps"]).sqrt()
    return {"x": x / norms[:, None], "norms": norms}
