"""The truth of topk_softmax, in float64; which experts may stand where weights are equal."""

from __future__ import annotations

from typing import Any

import torch

FARTHEST = 200.0
"""Largest distance of a logit from 0."""
NEARLY = 1e-4
"""Weights closer than that are equal in float32 with fast maths: logits are rounded, too."""
LEAST = 1e-37
"""Smaller weights are flushed to zero."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw gating [tokens, experts] and correction_bias [experts]: finite, as routers' are."""
    dims = case.dims
    drawn = case.draw(generator, (dims["tokens"], dims["experts"]))
    inputs = {"gating": _finite(drawn, FARTHEST)}
    if "correction_bias" not in case.absent:
        bias = case.draw(generator, (dims["experts"],), torch.float32)
        inputs["correction_bias"] = _finite(bias, FARTHEST / 2)
    return inputs


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """topk_weights and topk_ids [tokens, topk]; of equal weights the lower expert first."""
    weights, ids = _softmax(inputs).sort(dim=1, descending=True, stable=True)
    topk = int(inputs["topk"])
    weights, ids = weights[:, :topk], ids[:, :topk]
    if inputs["renormalize"]:
        weights = weights / weights.sum(dim=1, keepdim=True)
    return {"topk_weights": weights, "topk_ids": ids}


def accept(
    inputs: dict[str, torch.Tensor], outputs: dict[str, torch.Tensor]
) -> tuple[str, tuple[int, int]] | None:
    """Returns None where the experts of a token are different ones and have the weights that belong
    there; else what is wrong, and where: token and place."""
    weights = _softmax(inputs)
    ids = outputs["topk_ids"].long()
    experts = weights.shape[1]
    outside = (ids < 0) | (ids >= experts)
    if outside.any():
        return f"experts are 0 to {experts - 1}", _first(outside)
    earlier = (ids[:, :, None] == ids[:, None, :]).tril(-1).any(dim=2)
    if earlier.any():
        return "this expert stands there twice", _first(earlier)
    wanted = weights.sort(dim=1, descending=True).values[:, : ids.shape[1]]
    apart = (weights.gather(1, ids) - wanted).abs() > NEARLY * wanted + LEAST
    if apart.any():
        return "this expert's weight is not the one that belongs there", _first(apart)
    return None


def _softmax(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the weights of all experts of each token, [tokens, experts]."""
    logits, cap = inputs["gating"].double(), float(inputs["moe_softcapping"])
    if cap != 0:
        logits = cap * torch.tanh(logits / cap)
    if inputs["correction_bias"] is not None:
        logits = logits + inputs["correction_bias"].double()
    return torch.softmax(logits, dim=1)


def _finite(drawn: torch.Tensor, farthest: float) -> torch.Tensor:
    return drawn.nan_to_num(nan=0.0).clamp(-farthest, farthest)


def _first(places: torch.Tensor) -> tuple[int, int]:
    token, place = places.nonzero()[0].tolist()
    return token, place
