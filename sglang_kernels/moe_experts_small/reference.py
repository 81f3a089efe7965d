"""The truth of moe_experts_small, in float64: the weighted results of each token's experts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

LARGEST_X, LARGEST_W = 4.0, 2.0
"""Finite numbers are at most these: roundings of larger h would outweigh any tolerance."""
DRAWN = 16
"""So many experts are drawn; further ones hold the same numbers, each row moved on by one more:
a gigabyte of normal numbers takes a minute."""
FLUSHED = 2.0**-126
"""Smaller numbers are zero with fast maths."""
ULP = 2.0**-24
"""One rounding of float32."""
STEEPEST = 1.1
"""The largest slope of silu."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw hidden_states [tokens, hidden], both weights, a power of two smaller the longer their
    sums are, and topk_weights [tokens, topk], whose rows add up to one."""
    tokens, hidden, inner, experts, topk = (
        case.dims[name] for name in ("tokens", "hidden", "intermediate", "experts", "topk")
    )
    gates = case.draw(generator, (tokens, topk), torch.float32).nan_to_num(0.0, 1.0, 1.0).abs()
    gates = gates.clamp(2.0**-10, 2.0**10)
    return {
        "hidden_states": _bounded(case.draw(generator, (tokens, hidden)), LARGEST_X),
        "w13": _weights(case, generator, (experts, 2 * inner, hidden)),
        "w2": _weights(case, generator, (experts, hidden, inner)),
        "topk_weights": gates / gates.sum(dim=1, keepdim=True).clamp(min=1e-10),
    }


def reference(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """out [tokens, hidden], float64, of h in bfloat16."""
    out = torch.zeros_like(inputs["hidden_states"], dtype=torch.float64)
    for tokens, weights, x, w13, w2 in _experts(inputs):
        gate, up = (x @ w13.T).chunk(2, dim=1)
        h = (torch.nn.functional.silu(gate) * up).bfloat16().double()
        out.index_add_(0, tokens, weights[:, None] * (h @ w2.T))
    return {"out": out}


def terms(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The absolute sum of the terms w2 h. Where what float32 loses of gate and up decides which
    bfloat16 an h is rounded to, both may be right: the term counts as so much more."""
    hidden, inner = inputs["hidden_states"].shape[1], inputs["w2"].shape[2]
    band = _roundings(inputs["topk_ids"].shape[1] * inner)
    out = torch.zeros_like(inputs["hidden_states"], dtype=torch.float64)
    for tokens, weights, x, w13, w2 in _experts(inputs):
        gate, up = (x @ w13.T).chunk(2, dim=1)
        off = _roundings(hidden) * (x.abs() @ w13.abs().T) + FLUSHED * hidden
        of_gate, of_up = off.chunk(2, dim=1)
        act = torch.nn.functional.silu(gate)
        # A fast exponential of x errs by some ulps and |x| more.
        of_act = STEEPEST * of_gate + (16 + 4 * gate.abs()) * ULP * act.abs()
        moved = of_act * (up.abs() + of_up) + of_up * act.abs() + FLUSHED
        low, high = ((act * up + by).bfloat16().double() for by in (-moved, moved))
        sizes = torch.maximum(low.abs(), high.abs()) + (high - low) / band + FLUSHED
        out.index_add_(0, tokens, weights[:, None] * (sizes @ w2.abs().T) + FLUSHED)
    return {"out": out}


def _roundings(summands: int) -> float:
    """What float32 loses of a sum of so many terms, relative to their absolute sum: the default
    band of [precision]."""
    return (32 + 4 * math.sqrt(summands)) * ULP


def _experts(inputs: dict[str, Any]) -> Iterator[tuple[torch.Tensor, ...]]:
    """For each expert that a token chose: the tokens, their weights and rows of x, w13 and w2."""
    ids = inputs["topk_ids"].long()
    for expert in ids.unique().tolist():
        tokens, places = (ids == expert).nonzero(as_tuple=True)
        weights = inputs["topk_weights"][tokens, places].double()
        x = inputs["hidden_states"][tokens].double()
        yield tokens, weights, x, inputs["w13"][expert].double(), inputs["w2"][expert].double()


def _weights(case: Any, generator: torch.Generator, shape: tuple[int, int, int]) -> torch.Tensor:
    """Weights of all experts; the last extent is that of their sums."""
    experts, rows, summed = shape
    some = case.draw(generator, (min(experts, DRAWN), rows, summed))
    some = _bounded(some, LARGEST_W) * 2.0 ** -round(math.log2(summed) / 2)
    if experts <= DRAWN:
        return some
    return torch.stack([some[e % DRAWN].roll(e // DRAWN, dims=-1) for e in range(experts)])


def _bounded(drawn: torch.Tensor, largest: float) -> torch.Tensor:
    return drawn.nan_to_num(nan=0.0).clamp(-largest, largest)
