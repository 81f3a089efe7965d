"""The truth of gather, in float64."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    shape = (case.dims["entries"], case.dims["width"])
    weight = case.draw(generator, (1, case.dims["rows"]), torch.float32).reshape(-1)
    return {"table": case.draw(generator, shape), "weight": weight.clamp(-16, 16)}


def reference(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    index, table = inputs["index"].long(), inputs["table"].double()
    rows = table[index.clamp(min=0)]
    if inputs["weight"] is not None:
        rows = rows * inputs["weight"].double()[:, None]
    return {"out": torch.where((index >= 0)[:, None], rows, 0.0)}
