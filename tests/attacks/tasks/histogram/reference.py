"""The truth of histogram: whole numbers, exact."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": case.draw(generator, (1, case.dims["n"])).reshape(-1)}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    scaled = (16 * inputs["x"].double().abs()).nan_to_num(nan=255.0, posinf=255.0)
    bins = scaled.clamp(max=255).long()
    return {"counts": torch.bincount(bins, minlength=256).double()}
