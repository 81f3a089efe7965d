"""Dummy weights by which results can be told apart.

SGLang's own lie within 1e-3, norms too: then no result depends on what a kernel computes.
"""

from __future__ import annotations

import zlib
from typing import Any

import torch

ROWS = 1 << 15
"""Rows that are drawn at once."""


def initialize(model: Any, low: float = -1e-3, high: float = 1e-3, seed: int = 1234) -> None:
    """Instead of SGLang's initialize_dummy_weights: norms near 1, matrices with a standard
    deviation of 1/sqrt(inputs), each parameter drawn from a seed of its name."""
    for name, parameter in model.state_dict().items():
        if not torch.is_floating_point(parameter):
            continue
        draws = torch.Generator(device=parameter.device)
        draws.manual_seed(zlib.crc32(name.encode()) ^ seed)
        if parameter.dim() == 1:
            middle, scale = (1.0 if "norm" in name else 0.0), 0.1
            rows = [parameter]
        else:
            middle = 0.0
            scale = 1.0 if "embed" in name else parameter.shape[-1] ** -0.5
            rows = list(parameter.view(-1, parameter.shape[-1]).split(ROWS))
        for some in rows:
            normal = torch.randn(some.shape, device=some.device, generator=draws)
            some.copy_((middle + scale * normal).to(some.dtype))
