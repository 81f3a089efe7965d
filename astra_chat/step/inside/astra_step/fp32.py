"""A forward pass of Qwen 3 in float32 with the weights that the engine has: what both variants of a
step are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear, silu

ARCHITECTURES = ("Qwen3ForCausalLM", "Qwen3MoeForCausalLM")
REQUESTS = 16
"""Requests that are computed together."""


@torch.no_grad()
def logits(
    weights: Mapping[str, Tensor],
    rotation: Tensor,
    config: Mapping[str, Any],
    tokens: Tensor,
    positions: Sequence[int],
) -> list[Tensor]:
    """Logits at these positions of requests of equal length: tokens[request, position]. `rotation`
    holds cosines and sines for each position, as the engine has them."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        parts = [_some(weights, rotation, config, part) for part in tokens.split(REQUESTS)]
        last = weights["model.norm.weight"]
        head = weights["lm_head.weight"].float()
        eps = config["rms_norm_eps"]
        return [
            linear(_norm(torch.cat([part[:, one] for part in parts]), last, eps), head)
            for one in positions
        ]
    finally:
        torch.set_float32_matmul_precision(before)


def _some(
    weights: Mapping[str, Tensor], rotation: Tensor, config: Mapping[str, Any], tokens: Tensor
) -> Tensor:
    eps = config["rms_norm_eps"]
    rows = weights["model.embed_tokens.weight"][tokens].float()
    for number in range(config["num_hidden_layers"]):
        layer = _Layer(weights, f"model.layers.{number}.")
        normed = _norm(rows, layer["input_layernorm.weight"], eps)
        rows = rows + _attention(layer, rotation, config, normed)
        normed = _norm(rows, layer["post_attention_layernorm.weight"], eps)
        rows = rows + (
            _experts(layer, config, normed)
            if "mlp.experts.w13_weight" in layer
            else _mlp(normed, layer["mlp.gate_up_proj.weight"], layer["mlp.down_proj.weight"])
        )
    return rows


class _Layer:
    """Weights of one layer, by the rest of their names."""

    def __init__(self, weights: Mapping[str, Tensor], prefix: str) -> None:
        self._weights, self._prefix = weights, prefix

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[self._prefix + name]

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._weights


def _norm(rows: Tensor, weight: Tensor, eps: float) -> Tensor:
    scale = torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)
    return rows * scale * weight.float()


def _attention(layer: _Layer, rotation: Tensor, config: Mapping[str, Any], rows: Tensor) -> Tensor:
    requests, length, _ = rows.shape
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, eps = config["head_dim"], config["rms_norm_eps"]
    qkv = linear(rows, layer["self_attn.qkv_proj.weight"].float())
    qkv = qkv.view(requests, length, heads + 2 * kv_heads, size)
    q, k, v = qkv.split([heads, kv_heads, kv_heads], dim=2)
    q = _rotated(_norm(q, layer["self_attn.q_norm.weight"], eps), rotation[:length])
    k = _rotated(_norm(k, layer["self_attn.k_norm.weight"], eps), rotation[:length])
    k, v = (one.repeat_interleave(heads // kv_heads, dim=2) for one in (k, v))
    scores = torch.einsum("nqhd,nkhd->nhqk", q, k) * size**-0.5
    later = torch.ones(length, length, dtype=torch.bool, device=rows.device).triu(1)
    shares = scores.masked_fill(later, float("-inf")).softmax(-1)
    mixed = torch.einsum("nhqk,nkhd->nqhd", shares, v).reshape(requests, length, heads * size)
    return linear(mixed, layer["self_attn.o_proj.weight"].float())


def _rotated(rows: Tensor, rotation: Tensor) -> Tensor:
    """Pairs of values lie half a head apart, as GPT-NeoX has them."""
    cos, sin = (one[None, :, None, :] for one in rotation.float().chunk(2, -1))
    low, high = rows.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


def _mlp(rows: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = linear(rows, gate_up.float()).chunk(2, -1)
    return linear(silu(gate) * up, down.float())


def _experts(layer: _Layer, config: Mapping[str, Any], rows: Tensor) -> Tensor:
    flat = rows.reshape(-1, rows.shape[-1])
    shares = linear(flat, layer["mlp.gate.weight"].float()).softmax(-1)
    weights, chosen = shares.topk(config["num_experts_per_tok"], -1)
    if config.get("norm_topk_prob"):
        weights = weights / weights.sum(-1, keepdim=True)
    gate_up, down = layer["mlp.experts.w13_weight"], layer["mlp.experts.w2_weight"]
    found = torch.zeros_like(flat)
    for expert in range(config["num_experts"]):
        token, place = (chosen == expert).nonzero(as_tuple=True)
        if len(token):
            result = _mlp(flat[token], gate_up[expert], down[expert])
            found.index_add_(0, token, result * weights[token, place, None])
    return found.view_as(rows)
