"""The truth of qk_norm_rope_kv_append, in float64: heads of query and key over their root mean
square, times the weight, halves rotated; key and value over their scales into their slots."""

from __future__ import annotations

from typing import Any

import torch

CACHES = ("k_cache", "v_cache")
CODES = torch.float8_e4m3fn
LARGEST = 448.0
FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw query [tokens, heads, head_dim], key and value [tokens, kv_heads, head_dim] and caches
    [pages, page_size, kv_heads, head_dim] of the case's values; weights [head_dim] near one, as
    trained ones are; cos_sin_cache [max_position, head_dim]."""
    dims = case.dims
    head_dim, kept = dims["head_dim"], case.types["C"]
    half = head_dim // 2
    inverse = 1e6 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(dims["max_position"], dtype=torch.float64)[:, None] * inverse
    cache = dims["pages"], dims["page_size"], dims["kv_heads"], head_dim
    weights = {
        name: (1 + 0.25 * torch.randn(head_dim, generator=generator)).to(case.dtype)
        for name in ("q_weight", "k_weight")
    }
    return {
        "query": case.draw(generator, (dims["tokens"], dims["heads"], head_dim)),
        "key": case.draw(generator, (dims["tokens"], dims["kv_heads"], head_dim)),
        "value": case.draw(generator, (dims["tokens"], dims["kv_heads"], head_dim)),
        "cos_sin_cache": torch.cat([angles.cos(), angles.sin()], dim=-1).float(),
        **weights,
        **{name: case.draw(generator, cache, kept) for name in CACHES},
    }


def reference(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """query, key and both caches as they are after the call, float64; of codes what is to be coded,
    within their range."""
    return _results(inputs)


def terms(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The absolute values of the two products of a rotated element, added up; of a value itself.
    And what float32 takes for zero of a product of two factors, as often as the third has it."""
    return _results(inputs, sizes=True)


def rounded(inputs: dict[str, Any], shift: float) -> dict[str, torch.Tensor]:
    """Results of kernels in sequence: what the norm gives is moved by this share of itself, as
    float32 may, and rounded to T, and so is the rotated key where codes are made of it."""
    return _results(inputs, shift=shift)


def _results(
    inputs: dict[str, Any], *, sizes: bool = False, shift: float | None = None
) -> dict[str, torch.Tensor]:
    """Query, key and caches. `sizes`: the absolute values of the products are added up, with what
    float32 takes for zero of them. `shift`: between the kernels T is rounded to."""
    dtype = inputs["query"].dtype
    rows = inputs["cos_sin_cache"].double()[inputs["positions"].long()]
    cos, sin = (rows.abs() if sizes else rows)[:, None, :].chunk(2, dim=-1)
    found, products = {}, {}
    for name, weight in (("query", "q_weight"), ("key", "k_weight")):
        given = inputs[name].double()
        given = given.abs() + FLUSHED if sizes else given
        heads = normed(given, inputs[weight].double(), float(inputs["eps"]))
        heads = heads.abs() + FLUSHED * (1 + given) if sizes else heads
        heads = heads if shift is None else (heads * (1 + shift)).to(dtype).double()
        found[name] = rotated(heads, cos, sin, -1.0 if sizes else 1.0)
        products[name] = rotated(heads.abs(), cos.abs(), sin.abs(), -1.0)
    new, value = found["key"], inputs["value"].double()
    if shift is not None and inputs["k_cache"].dtype == CODES:
        new = (new + shift * products["key"]).to(dtype).double()
    found["k_cache"] = _appended(inputs, "k_cache", new, sizes)
    found["v_cache"] = _appended(inputs, "v_cache", value.abs() if sizes else value, sizes)
    return found


def _appended(inputs: dict[str, Any], name: str, rows: torch.Tensor, sizes: bool) -> torch.Tensor:
    """A cache [pages, page_size, kv_heads, head_dim] with rows [tokens, kv_heads, head_dim] in
    their slots."""
    cache: torch.Tensor = inputs[name].double()
    slots = inputs["slots"].long()
    if inputs[name].dtype == CODES:
        scale = inputs[name.replace("cache", "scale")]
        rows = rows / (1.0 if scale is None else scale.double())
        rows = rows if sizes else rows.clamp(-LARGEST, LARGEST)
    cache = cache.abs() if sizes else cache.clone()
    cache.flatten(0, 1)[slots] = rows
    return cache


def normed(heads: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """Heads [tokens, n, head_dim] over their root mean squares. One whose squares overflow fp32
    does so here: its scale is zero."""
    squares = heads.square().sum(dim=-1, keepdim=True)
    squares = torch.where(squares > torch.finfo(torch.float32).max, torch.inf, squares)
    return heads * torch.rsqrt(squares / heads.shape[-1] + eps) * weight


def rotated(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, sign: float) -> torch.Tensor:
    """Heads [tokens, n, head_dim] whose halves are turned; cos, sin [tokens, 1, head_dim / 2]."""
    x, y = heads.chunk(2, dim=-1)
    return torch.cat([x * cos - sign * y * sin, y * cos + x * sin], dim=-1)
