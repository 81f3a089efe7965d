"""The truth of rope_and_kv_write, in float64."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """query [tokens, heads, head_dim], key and value [tokens, kv_heads, head_dim], both caches
    [slots, kv_heads, head_dim] of the case's values; cos_sin_cache [max_position, rotary_dim]."""
    dims = case.dims
    half = dims["rotary_dim"] // 2
    inverse = 5e5 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(dims["max_position"], dtype=torch.float64)[:, None] * inverse
    new, cache = (dims[name] for name in ("tokens", "slots"))
    of_key = (dims["kv_heads"], dims["head_dim"])
    shapes = {
        "query": (new, dims["heads"], dims["head_dim"]),
        "key": (new, *of_key),
        "value": (new, *of_key),
        "k_cache": (cache, *of_key),
        "v_cache": (cache, *of_key),
    }
    return {
        **{name: case.draw(generator, shape) for name, shape in shapes.items()},
        "cos_sin_cache": torch.cat([angles.cos(), angles.sin()], dim=-1).float(),
    }


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """query and key turned, float64; both caches with the rows of key and value in their slots."""
    rows = inputs["cos_sin_cache"].double()[inputs["positions"]]
    cos, sin = rows[:, None, :].chunk(2, dim=-1)
    neox = bool(inputs["is_neox"])
    query, key = (rotated(inputs[name].double(), cos, sin, neox) for name in ("query", "key"))
    written = {"query": query, "key": key}
    for name, new in (("k_cache", key), ("v_cache", inputs["value"].double())):
        cache = inputs[name].double()
        cache[inputs["cache_loc"]] = new
        written[name] = cache
    return written


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The absolute values of the two products of a turned element, added up; of a copy itself."""
    rows = inputs["cos_sin_cache"].double()[inputs["positions"]].abs()
    cos, sin = rows[:, None, :].chunk(2, dim=-1)
    neox = bool(inputs["is_neox"])
    sums = {n: rotated(inputs[n].double().abs(), cos, sin, neox, -1.0) for n in ("query", "key")}
    for name, new in (("k_cache", sums["key"]), ("v_cache", inputs["value"].double().abs())):
        cache = inputs[name].double().abs()
        cache[inputs["cache_loc"]] = new
        sums[name] = cache
    return sums


def rotated(
    heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, neox: bool, sign: float = 1.0
) -> torch.Tensor:
    """heads [tokens, n, head_dim]; cos, sin [tokens, 1, rotary_dim / 2]."""
    half = cos.shape[-1]
    turned = heads.clone()
    first = torch.arange(half) if neox else 2 * torch.arange(half)
    second = first + half if neox else first + 1
    x, y = heads[..., first], heads[..., second]
    turned[..., first] = x * cos - sign * y * sin
    turned[..., second] = y * cos + x * sin
    return turned
