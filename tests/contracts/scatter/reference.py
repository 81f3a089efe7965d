"""The truth of scatter, in float64."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """cache [blocks, block_size, heads * head_size]; bias [heads]. Key and slot are the judge's."""
    dims = case.dims
    width = dims["heads"] * dims["head_size"]
    cache = case.draw(generator, (dims["blocks"], dims["block_size"], width))
    bias = torch.randn(dims["heads"], generator=generator)
    return {"cache": cache} | ({} if "bias" in case.absent else {"bias": bias})


def reference(inputs: dict[str, torch.Tensor | None]) -> dict[str, torch.Tensor]:
    """cache after the call, float64."""
    cache, key, slot = inputs["cache"], inputs["key"], inputs["slot"]
    assert cache is not None and key is not None and slot is not None
    values = key.double()
    if (bias := inputs["bias"]) is not None:
        values = values + bias.double()[:, None]
    if not inputs["causal"]:
        values = -values
    rows = cache.double().reshape(-1, cache.shape[-1]).clone()
    kept = slot >= 0
    rows[slot[kept].long()] = values.flatten(1)[kept]
    return {"cache": rows.reshape(cache.shape)}
