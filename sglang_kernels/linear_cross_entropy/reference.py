"""The truth of linear_cross_entropy, in float64: the negative log-probability of each target."""

from __future__ import annotations

import math
from typing import Any

import torch

LARGEST_H, LARGEST_W = 4.0, 2.0
"""Finite numbers are at most these: logits stay in the hundreds."""
IGNORED = -100
"""The target whose loss is 0, PyTorch's ignore_index."""
DRAWN = 4096
"""So many rows of the weight are drawn; further ones hold the same numbers, moved on by one more:
half a gigabyte of normal numbers takes long."""
COLUMNS = 8192
"""Logits that are held at once, of each token."""


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw hidden [tokens, d], and weight [vocab, d], a power of two smaller the longer the sums
    are."""
    tokens, d, vocab = (case.dims[name] for name in ("tokens", "d", "vocab"))
    some = _bounded(case.draw(generator, (min(vocab, DRAWN), d)), LARGEST_W)
    some = some * 2.0 ** -round(math.log2(d) / 2)
    blocks = [some.roll(turn, dims=-1) for turn in range(-(-vocab // DRAWN))]
    return {
        "hidden": _bounded(case.draw(generator, (tokens, d)), LARGEST_H),
        "weight": torch.cat(blocks)[:vocab].contiguous() if len(blocks) > 1 else some,
    }


def reference(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """loss [tokens], float64."""
    hidden, weight, target = inputs["hidden"].double(), inputs["weight"], inputs["target"].long()
    total = torch.full_like(hidden[:, 0], -math.inf)
    for start in range(0, len(weight), COLUMNS):
        logits = hidden @ weight[start : start + COLUMNS].double().T
        total = torch.logaddexp(total, logits.logsumexp(dim=1))
    wanted = weight[target.clamp(min=0)].double()
    loss = total - (hidden * wanted).sum(dim=1)
    return {"loss": torch.where(target == IGNORED, 0.0, loss)}


def _bounded(drawn: torch.Tensor, largest: float) -> torch.Tensor:
    return drawn.nan_to_num(nan=0.0).clamp(-largest, largest)
