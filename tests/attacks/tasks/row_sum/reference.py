"""The truth of row_sum, in float64."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": case.draw(generator, (case.dims["rows"], case.dims["n"]))}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"out": inputs["x"].double().sum(dim=-1)}
