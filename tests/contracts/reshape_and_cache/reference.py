"""The truth of reshape_and_cache."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """key and value [tokens, heads, head_size], both caches [blocks, block_size, heads, head_size]
    of the case's values. Slots are the contract's to draw."""
    dims = case.dims
    new = (dims["tokens"], dims["heads"], dims["head_size"])
    cache = (dims["blocks"], dims["block_size"], dims["heads"], dims["head_size"])
    shapes = {"key": new, "value": new, "key_cache": cache, "value_cache": cache}
    return {name: case.draw(generator, shape) for name, shape in shapes.items()}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Both caches after the call, float64."""
    slots = inputs["slot_mapping"]
    kept = slots >= 0
    written = {}
    for name in ("key", "value"):
        cache = inputs[f"{name}_cache"].double()
        rows = cache.reshape(-1, *cache.shape[2:]).clone()
        rows[slots[kept]] = inputs[name].double()[kept]
        written[f"{name}_cache"] = rows.reshape(cache.shape)
    return written
