"""The truth of router_gate, in float64; which experts may be chosen where float32 logits decide."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

ULP = 2.0**-24
LARGEST_X, LARGEST_W, LARGEST_BIAS = 16.0, 4.0, 16.0
"""Finite numbers are at most these."""
USUAL_BIAS = 0.125
"""Size of a drawn bias beside scores between 0 and 1."""
TINY = 1e-20
"""What is added to the sum of the chosen scores."""
FLUSHED = 2.0**-126
"""Smaller numbers are zero with fast maths."""
WEIGHT_ROUNDINGS = 32 * ULP
"""What sum, quotient and product of a weight may be off, relatively."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw hidden_states [tokens, hidden] and router_weight [experts, hidden], a power of two
    smaller the longer the sums are, and correction_bias [experts]."""
    tokens, hidden, experts = (case.dims[name] for name in ("tokens", "hidden", "experts"))
    weight = _finite(case.draw(generator, (experts, hidden)), LARGEST_W)
    bias = case.draw(generator, (experts,), torch.float32)
    return {
        "hidden_states": _finite(case.draw(generator, (tokens, hidden)), LARGEST_X),
        "router_weight": weight * 2.0 ** -round(math.log2(hidden) / 2),
        "correction_bias": _finite(bias * USUAL_BIAS, LARGEST_BIAS),
    }


def reference(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """topk_weights and topk_ids [tokens, topk]; of equal experts and groups the lower first."""
    scores = torch.sigmoid(_products(inputs, absolute=False))
    choice = scores + inputs["correction_bias"].double()
    groups, kept = _grouped(inputs, choice), int(inputs["topk_groups"])
    chosen = _group_sums(groups).sort(dim=1, descending=True, stable=True).indices[:, :kept]
    masked = torch.full_like(groups, -torch.inf)
    places = chosen[:, :, None].expand(-1, -1, groups.shape[2])
    masked.scatter_(1, places, groups.gather(1, places))
    order = masked.flatten(1).sort(dim=1, descending=True, stable=True).indices
    ids = order[:, : int(inputs["topk"])]
    picked = scores.gather(1, ids)
    weights = picked / (picked.sum(dim=1, keepdim=True) + TINY)
    return {"topk_weights": weights * float(inputs["routed_scaling_factor"]), "topk_ids": ids}


def accept(
    inputs: dict[str, Any], outputs: dict[str, torch.Tensor]
) -> tuple[str, tuple[str, int, int]] | None:
    """Returns None where some logits within the band give these experts in this order and these
    weights; else what is wrong, and where: argument, token and place."""
    ids, experts = outputs["topk_ids"].long(), inputs["router_weight"].shape[0]
    if (bad := (ids < 0) | (ids >= experts)).any():
        return f"experts are 0 to {experts - 1}", _first("topk_ids", bad)
    if (bad := (ids[:, :, None] == ids[:, None, :]).tril(-1).any(dim=2)).any():
        return "this expert was chosen before", _first("topk_ids", bad)
    scores = _scores(inputs)
    choice = scores.plus(inputs["correction_bias"].double())
    for why, bad in _wrong_choices(inputs, choice, ids):
        if bad.any():
            return why, _first("topk_ids", bad)
    if (bad := _wrong_weights(inputs, scores, ids, outputs["topk_weights"].double())).any():
        return "this is not the weight of the chosen expert", _first("topk_weights", bad)
    return None


@dataclass(frozen=True)
class Between:
    """Numbers that float32 may have instead of the exact ones: the bounds of each."""

    low: torch.Tensor
    high: torch.Tensor

    def plus(self, exact: torch.Tensor) -> Between:
        """The sums with exact numbers, rounded."""
        low, high = self.low + exact, self.high + exact
        return Between(low - ULP * low.abs(), high + ULP * high.abs())


def _scores(inputs: dict[str, Any]) -> Between:
    """The sigmoids of all experts of each token, [tokens, experts]."""
    roundings = 32 + 4 * math.sqrt(inputs["hidden_states"].shape[1])
    lost = FLUSHED * inputs["hidden_states"].shape[1]
    off = roundings * ULP * _products(inputs, absolute=True) + lost
    logits = _products(inputs, absolute=False)
    # A fast exponential of x errs by some ulps and |x| more.
    relative = (16 + 4 * logits.abs()) * ULP
    low = torch.sigmoid(logits - off) * (1 - relative)
    high = torch.sigmoid(logits + off) * (1 + relative)
    return Between(torch.where(low < 2 * FLUSHED, 0.0, low), high + FLUSHED)


def _wrong_choices(
    inputs: dict[str, Any], choice: Between, ids: torch.Tensor
) -> list[tuple[str, torch.Tensor]]:
    """Places [tokens, topk] that no logits within the bounds give, and why."""
    kept, topk = int(inputs["topk_groups"]), int(inputs["topk"])
    low, high = _grouped(inputs, choice.low), _grouped(inputs, choice.high)
    size = low.shape[2]
    may, must = _ranked(Between(_group_sums(low), _group_sums(high)), kept)
    worst, best = torch.full_like(low, -torch.inf), torch.full_like(high, -torch.inf)
    worst = torch.where(must[:, :, None], low, worst).flatten(1)
    best = torch.where(may[:, :, None], high, best).flatten(1)
    # Above an expert are surely those that are better and whose groups are surely chosen.
    surely_above = (worst[:, None, :] > choice.high[:, :, None]).sum(dim=2)
    maybe_above = (best[:, None, :] > choice.low[:, :, None]).sum(dim=2)
    allowed = may.repeat_interleave(size, dim=1) & (surely_above < topk)
    # Each counts itself among those that may be above.
    needed = must.repeat_interleave(size, dim=1) & (maybe_above <= topk)
    there = torch.zeros_like(needed).scatter_(1, ids, True)
    missing = (needed & ~there).any(dim=1, keepdim=True).expand_as(ids)
    used = torch.zeros_like(may).scatter_(1, ids // size, True).sum(dim=1, keepdim=True)
    later = torch.flip(torch.cummax(torch.flip(choice.low.gather(1, ids), [1]), 1).values, [1])
    return [
        ("this expert is not among the chosen groups' best", ~allowed.gather(1, ids)),
        (f"experts of more than {kept} groups", (used > kept).expand_as(ids)),
        ("a better expert was left out", missing),
        ("a better expert is behind this one", choice.high.gather(1, ids) < later),
    ]


def _ranked(sums: Between, kept: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which groups may be among the `kept` best, and which must be, [tokens, groups] each."""
    surely_above = (sums.low[:, None, :] > sums.high[:, :, None]).sum(dim=2)
    maybe_above = (sums.high[:, None, :] >= sums.low[:, :, None]).sum(dim=2)
    return surely_above < kept, maybe_above <= kept


def _wrong_weights(
    inputs: dict[str, Any], scores: Between, ids: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    """Where a weight is not that of the expert there, by the scores' bounds."""
    low, high = scores.low.gather(1, ids), scores.high.gather(1, ids)
    scale = float(inputs["routed_scaling_factor"])
    least = low / (low + high.sum(dim=1, keepdim=True) - high + TINY)
    most = high / (high + low.sum(dim=1, keepdim=True) - low + TINY)
    slack = WEIGHT_ROUNDINGS * scale * most + FLUSHED
    # So written, a NaN is wrong.
    return ~((weights >= scale * least - slack) & (weights <= scale * most + slack))


def _group_sums(groups: torch.Tensor) -> torch.Tensor:
    """The sum of the two largest of each group, [tokens, groups]."""
    return groups.topk(2, dim=2).values.sum(dim=2)


def _grouped(inputs: dict[str, Any], choice: torch.Tensor) -> torch.Tensor:
    return choice.reshape(choice.shape[0], int(inputs["groups"]), -1)


def _products(inputs: dict[str, Any], *, absolute: bool) -> torch.Tensor:
    x: torch.Tensor = inputs["hidden_states"].double()
    w: torch.Tensor = inputs["router_weight"].double()
    return x.abs() @ w.abs().T if absolute else x @ w.T


def _finite(drawn: torch.Tensor, largest: float) -> torch.Tensor:
    return drawn.nan_to_num(nan=0.0).clamp(-largest, largest)


def _first(argument: str, places: torch.Tensor) -> tuple[str, int, int]:
    token, place = places.nonzero()[0].tolist()
    return argument, token, place
