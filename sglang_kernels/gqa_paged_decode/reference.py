"""The truth of gqa_paged_decode, in float64: attention of one token a request over cached pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

LARGEST = {"q": 8.0, "k_cache": 8.0, "v_cache": 16.0}
"""Finite numbers are at most these: an exponential of much larger scores is 0 or 1."""
OF_SCORES = 2.0**-10
"""What float32 loses of a score, 2^-24 of its absolute sum some times, beside the rounding of a
probability to bfloat16, 2^-8."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw q [requests, heads, head_dim] and both caches [pages, page_size, kv_heads, head_dim]."""
    dims = case.dims
    pages = dims["requests"] * dims["max_pages"] + dims["other_pages"]
    cache = pages, dims["page_size"], dims["kv_heads"], dims["head_dim"]
    query = dims["requests"], dims["kv_heads"] * dims["group"], dims["head_dim"]
    shapes = {"q": query, "k_cache": cache, "v_cache": cache}
    return {
        name: case.draw(generator, shape).nan_to_num(nan=0.0).clamp(-LARGEST[name], LARGEST[name])
        for name, shape in shapes.items()
    }


def reference(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """out [requests, heads, head_dim], float64."""
    rows = [_attended(q, k, v, inputs)[1] for q, k, v in _requests(inputs)]
    return {"out": torch.stack(rows).flatten(1, 2)}


def terms(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The absolute sum of the terms, and what the errors of float32 scores are beside that: each
    moves its p, and the sum that all are divided by. Of a kernel that divides by the sum of the p
    that it rounded, the terms are p (v - out): their absolute sum is at most that of p v and out,
    and at most the root of the mean square (Jensen's inequality)."""
    found = []
    for q, k, v in _requests(inputs):
        p, out = _attended(q, k, v, inputs)
        sizes = float(inputs["sm_scale"]) * torch.einsum("hgd,hsd->hgs", q.abs(), k.abs())
        moved = p * (1 + sizes) * OF_SCORES
        of_terms = torch.einsum("hgs,hsd->hgd", p + moved, v.abs())
        spread = (torch.einsum("hgs,hsd->hgd", p, v.square()) - out.square()).clamp(min=0).sqrt()
        of_terms = torch.maximum(of_terms, torch.minimum(of_terms + out.abs(), spread))
        found.append(of_terms + out.abs() * moved.sum(dim=2, keepdim=True))
    return {"out": torch.stack(found).flatten(1, 2)}


def _attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, inputs: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities [kv_heads, group, tokens] and results [kv_heads, group, head_dim]."""
    p = torch.softmax(float(inputs["sm_scale"]) * torch.einsum("hgd,hsd->hgs", q, k), dim=2)
    return p, torch.einsum("hgs,hsd->hgd", p, v)


def _requests(
    inputs: dict[str, Any],
) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Each request's q [kv_heads, group, head_dim], k and v [kv_heads, tokens, head_dim]."""
    size, heads = inputs["k_cache"].shape[1:3]
    for row, length in enumerate(inputs["lengths"].tolist()):
        pages = inputs["page_table"][row, : -(-length // size)].long()
        k, v = (
            inputs[name][pages].flatten(0, 1)[:length].double().transpose(0, 1)
            for name in ("k_cache", "v_cache")
        )
        yield inputs["q"][row].double().unflatten(0, (heads, -1)), k, v
