"""The truth of sample_symbols: the probabilities that the draws must have."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw weights [symbols]: of the order of one, every seventh zero."""
    weights = torch.exp(torch.randn(case.dims["symbols"], generator=generator))
    weights[3::7] = 0
    return {"weights": weights}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Probabilities [symbols] of every sample."""
    weights = inputs["weights"].double()
    return {"samples": weights / weights.sum()}
