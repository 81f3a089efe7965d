"""One decode step of a Qwen3 MoE layer in torch, with kernels of six tasks where they are given.

Qwen3-30B-A3B in bfloat16 on one GPU, a cache of 1,024 positions a request. Tensors: hidden states
and residual [tokens, 2048], experts' rows [tokens * 8, 768 or 2048]. Rows are permuted for the
experts' products by indices made beforehand, since torch's grouped product takes them in that form;
the weighting of experts and the write into the cache are torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.nn import functional

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, EXPERTS, TOPK, INNER = 2048, 32, 4, 128, 128, 8, 768
BLOCK_SIZE, CONTEXT, MAX_POSITION, EPS = 16, 1024, 40960, 1e-6
Kernels = Mapping[str, Callable[..., Any]]
"""Kernels by task, each with the parameters of its module (tools/build/tvm_ffi_binding.py)."""


class RunnableLayer:
    """Weights, buffers and one decode step of so many requests."""

    def __init__(self, tokens: int, device: str = "cuda") -> None:
        torch.manual_seed(1)
        self.tokens, self._device = tokens, device
        rows, width = tokens * TOPK, (HEADS + 2 * KV_HEADS) * HEAD_DIM
        sorted_ids = min(rows * BLOCK_SIZE, rows + (EXPERTS + 1) * (BLOCK_SIZE - 1))
        blocks = -(-sorted_ids // BLOCK_SIZE)
        self.norms = [self._zeros(HIDDEN).fill_(1) for _ in range(2)]
        self.head_norms = [self._zeros(HEAD_DIM).fill_(1) for _ in range(2)]
        self.qkv, self.out = self._weight(width, HIDDEN), self._weight(HIDDEN, HEADS * HEAD_DIM)
        self.router = self._weight(EXPERTS, HIDDEN)
        self.up = self._weight(EXPERTS, 2 * INNER, HIDDEN).transpose(1, 2)
        self.down = self._weight(EXPERTS, HIDDEN, INNER).transpose(1, 2)
        angles = torch.rand(MAX_POSITION, HEAD_DIM // 2, device=device) * math.tau
        self.cos_sin = torch.cat([angles.cos(), angles.sin()], dim=-1)
        self.positions = self._zeros(tokens, dtype=torch.int64).fill_(CONTEXT - 1)
        self.cache = [self._zeros(tokens, CONTEXT, KV_HEADS, HEAD_DIM).normal_() for _ in range(2)]
        self.given = [self._zeros(tokens, HIDDEN).normal_() for _ in range(2)]
        self.state = [tensor.clone() for tensor in self.given]
        self.weights = self._zeros(tokens, TOPK, dtype=torch.float32)
        self.ids = self._zeros(tokens, TOPK, dtype=torch.int32)
        self.scratch = self._zeros(tokens, EXPERTS, dtype=torch.float32)
        self.aligned = [
            self._zeros(size, dtype=torch.int32) for size in (sorted_ids, blocks, 1, EXPERTS + 2)
        ]
        self.activated = self._zeros(rows, INNER)
        self.result = self._zeros(tokens, HIDDEN)
        self.order = self._zeros(rows, dtype=torch.int64)
        self.back = self._zeros(rows, dtype=torch.int64)
        self.ends = self._zeros(EXPERTS, dtype=torch.int32)

    def _zeros(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=self._device)

    def _weight(self, *shape: int) -> torch.Tensor:
        """Returns a random weight [..., outputs, inputs] in bfloat16, scaled so that results keep
        the size of inputs."""
        return self._zeros(*shape).normal_(std=1 / math.sqrt(shape[-1]))

    def restore(self) -> None:
        for now, given in zip(self.state, self.given, strict=True):
            now.copy_(given)

    def route(self, kernels: Kernels) -> None:
        """Make the permutation of the experts' rows, by one step that ends in the router."""
        self.restore()
        self._attend(kernels)
        self._choose(kernels, self.state[0])
        flat = self.ids.flatten().long()
        self.order.copy_(flat.argsort(stable=True))
        self.back.copy_(self.order.argsort())
        self.ends.copy_(torch.bincount(flat, minlength=EXPERTS).cumsum(0))

    def step(self, kernels: Kernels) -> None:
        """One decode step; kernels that are missing are left out."""
        self._attend(kernels)
        hidden = self.state[0]
        self._choose(kernels, hidden)
        rows = hidden.index_select(0, self.order // TOPK)
        gated = torch._grouped_mm(rows, self.up, offs=self.ends)
        self._run(kernels, "silu_and_mul", self.activated, gated)
        made = torch._grouped_mm(self.activated, self.down, offs=self.ends)
        parts = made.index_select(0, self.back).view(self.tokens, TOPK, HIDDEN)
        parts = parts * self.weights.to(parts.dtype).unsqueeze(-1)
        self._run(kernels, "moe_sum_reduce", parts, self.result, 1.0)

    def _attend(self, kernels: Kernels) -> None:
        hidden, residual = self.state
        self._run(kernels, "fused_add_rmsnorm", hidden, residual, self.norms[0], EPS)
        qkv = functional.linear(hidden, self.qkv)
        heads = qkv.view(self.tokens, -1, HEAD_DIM)
        query, key = heads[:, :HEADS], heads[:, HEADS : HEADS + KV_HEADS]
        value = heads[:, HEADS + KV_HEADS :]
        self._run(
            kernels,
            "qk_rmsnorm_rope",
            query,
            key,
            *self.head_norms,
            self.cos_sin,
            self.positions,
            EPS,
            True,
        )
        for cache, new in zip(self.cache, (key, value), strict=True):
            cache[:, CONTEXT - 1].copy_(new)
        keys, values = (cache.transpose(1, 2) for cache in self.cache)
        attended = functional.scaled_dot_product_attention(
            query.unsqueeze(2), keys, values, enable_gqa=True
        )
        torch.mm(attended.reshape(self.tokens, -1), self.out.t(), out=hidden)
        self._run(kernels, "fused_add_rmsnorm", hidden, residual, self.norms[1], EPS)

    def _choose(self, kernels: Kernels, hidden: torch.Tensor) -> None:
        gating = functional.linear(hidden, self.router)
        self._run(
            kernels, "topk_softmax", self.weights, self.ids, gating, None, self.scratch, True, 0.0
        )
        self._run(
            kernels, "moe_align_block_size", self.ids, *self.aligned, EXPERTS, BLOCK_SIZE, True
        )

    def _run(self, kernels: Kernels, name: str, *arguments: object) -> None:
        if name in kernels:
            kernels[name](*arguments)
