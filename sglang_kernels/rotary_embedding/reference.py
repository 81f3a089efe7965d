"""The truth of rotary_embedding, in float64."""

from __future__ import annotations

from typing import Any

import torch


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """query [tokens, heads, head_size], key [tokens, kv_heads, head_size] of the case's values;
    cos_sin_cache [max_position, rot_dim]. Positions are the contract's to draw."""
    dims = case.dims
    half = dims["rot_dim"] // 2
    inverse = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(dims["max_position"], dtype=torch.float64)[:, None] * inverse
    table = torch.cat([angles.cos(), angles.sin()], dim=-1)
    inputs = {
        "query": case.draw(generator, (dims["tokens"], dims["heads"], dims["head_size"])),
        "cos_sin_cache": table.to(case.dtype),
    }
    if "key" not in case.absent:
        shape = (dims["tokens"], dims["kv_heads"], dims["head_size"])
        inputs["key"] = case.draw(generator, shape)
    return inputs


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """query and key as they are after the call, float64."""
    rows = inputs["cos_sin_cache"].double()[inputs["positions"]]
    cos, sin = rows.chunk(2, dim=-1)
    neox = bool(inputs["is_neox"])
    present = [name for name in ("query", "key") if inputs[name] is not None]
    return {name: rotated(inputs[name].double(), cos, sin, neox) for name in present}


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The absolute values of the two products of an element, added up."""
    rows = inputs["cos_sin_cache"].double()[inputs["positions"]].abs()
    cos, sin = rows.chunk(2, dim=-1)
    present = [name for name in ("query", "key") if inputs[name] is not None]
    neox = bool(inputs["is_neox"])
    return {n: rotated(inputs[n].double().abs(), cos, sin, neox, -1.0) for n in present}


def rotated(
    heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, neox: bool, sign: float = 1.0
) -> torch.Tensor:
    """heads [tokens, n, head_size]; cos, sin [tokens, rot_dim / 2]."""
    half = cos.shape[-1]
    turned = heads.clone()
    first = torch.arange(half) if neox else 2 * torch.arange(half)
    second = first + half if neox else first + 1
    x, y = heads[..., first], heads[..., second]
    cos, sin = cos[:, None, :], sin[:, None, :]
    turned[..., first] = x * cos - sign * y * sin
    turned[..., second] = y * cos + x * sin
    return turned
