"""The truth of norm_in_place, in float64."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    return {"x": case.draw(generator, (case.dims["rows"], case.dims["n"]))}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A row that overflows float32 has an infinite length there, and so here."""
    x = inputs["x"].double()
    squares = x.square().sum(dim=-1) + inputs["eps"]
    limit = torch.finfo(torch.float32).max
    norms = torch.where(squares > limit, torch.inf, squares).sqrt()
    return {"x": x / norms[:, None], "norms": norms}
