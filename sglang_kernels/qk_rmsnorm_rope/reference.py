"""The truth of qk_rmsnorm_rope, in float64: each head over its root mean square, times the weight;
then pairs of elements turned by the token's angles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

FLUSHED = 2.0**-102
"""2^-126, which fast maths takes for zero, in roundings of 2^-24."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """query [tokens, heads, head_dim], key [tokens, kv_heads, head_dim] of the case's values;
    weights [head_dim] near one, as trained ones are; cos_sin_cache [max_position, rotary_dim]."""
    dims = case.dims
    half, head_dim = dims["rotary_dim"] // 2, dims["head_dim"]
    inverse = 1e6 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.arange(dims["max_position"], dtype=torch.float64)[:, None] * inverse
    weights = {
        name: (1 + 0.25 * torch.randn(head_dim, generator=generator)).to(case.dtype)
        for name in ("q_weight", "k_weight")
    }
    return {
        "query": case.draw(generator, (dims["tokens"], dims["heads"], head_dim)),
        "key": case.draw(generator, (dims["tokens"], dims["kv_heads"], head_dim)),
        "cos_sin_cache": torch.cat([angles.cos(), angles.sin()], dim=-1).float(),
        **weights,
    }


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """query and key as they are after the call, float64; `eps` is the launcher's scalar."""
    return _results(inputs, lambda heads: heads)


def terms(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The absolute values of the two products of a turned element, added up. And what float32 takes
    for zero of a product of two factors, as often as the third has it."""
    return _results(inputs, lambda heads: heads, sizes=True)


def rounded(inputs: dict[str, torch.Tensor], shift: float) -> dict[str, torch.Tensor]:
    """Results of the two kernels in sequence: what the norm gives is moved by this share of itself,
    as float32 may, and rounded to T."""
    dtype = inputs["query"].dtype
    return _results(inputs, lambda heads: (heads * (1 + shift)).to(dtype).double())


def _results(
    inputs: dict[str, torch.Tensor],
    between: Callable[[torch.Tensor], torch.Tensor],
    *,
    sizes: bool = False,
) -> dict[str, torch.Tensor]:
    """query and key: what the norm gives goes through `between`, then it is turned; with `sizes`
    the absolute values of the products are added up, with what float32 takes for zero of them."""
    rows = inputs["cos_sin_cache"].double()[inputs["positions"]]
    cos, sin = (rows.abs() if sizes else rows)[:, None, :].chunk(2, dim=-1)
    results = {}
    for name, weight in (("query", "q_weight"), ("key", "k_weight")):
        given = inputs[name].double()
        given = given.abs() + FLUSHED if sizes else given
        heads = normed(given, inputs[weight].double(), float(inputs["eps"]))
        heads = heads.abs() + FLUSHED * (1 + given) if sizes else heads
        sign = -1.0 if sizes else 1.0
        results[name] = rotated(between(heads), cos, sin, bool(inputs["is_neox"]), sign)
    return results


def normed(heads: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """A head whose squares overflow fp32 does so here, as upstream: its scale is zero."""
    squares = heads.square().sum(dim=-1, keepdim=True)
    squares = torch.where(squares > torch.finfo(torch.float32).max, torch.inf, squares)
    return heads * torch.rsqrt(squares / heads.shape[-1] + eps) * weight


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
