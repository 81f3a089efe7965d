"""The truth of moe_align_block_size; its outputs in a form that can be compared."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

UNSPECIFIED = -2


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Draw sorted_token_ids as callers pass it: filled with the padding, or with anything where
    the kernel is to write that. The judge draws topk_ids."""
    dims, ids = case.dims, case.dims["tokens"] * case.dims["topk"]
    size = dims["block_size"]
    shape = (min(ids * size, ids + (dims["experts"] + 1) * (size - 1)),)
    if case.scalars["pad_sorted_token_ids"]:
        return {"sorted_token_ids": torch.randint(ids, shape, generator=generator).int()}
    return {"sorted_token_ids": torch.full(shape, ids, dtype=torch.int32)}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All int64, sorted by place within each id; what is not specified is UNSPECIFIED."""
    ids, size = inputs["topk_ids"].reshape(-1).long(), int(inputs["block_size"])
    starts = _starts(inputs)
    places = torch.full(inputs["sorted_token_ids"].shape, UNSPECIFIED)
    of_blocks = torch.full((-(-len(places) // size),), UNSPECIFIED)
    for bucket, (first, end) in enumerate(pairwise(starts.tolist())):
        own = (ids == bucket - 1).nonzero().reshape(-1)
        places[first:end] = len(ids)
        places[first : first + len(own)] = own
        of_blocks[first // size : end // size] = bucket - 1
    return {
        "sorted_token_ids": places,
        "expert_ids": of_blocks,
        "num_tokens_post_pad": starts[-1:],
    }


def canonical(
    outputs: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The places of each id in ascending order; UNSPECIFIED beyond the last block."""
    starts, size = _starts(inputs).tolist(), int(inputs["block_size"])
    places, of_blocks = (outputs[name].clone() for name in ("sorted_token_ids", "expert_ids"))
    for first, end in pairwise(starts):
        places[first:end] = places[first:end].sort().values
    places[starts[-1] :] = UNSPECIFIED
    of_blocks[starts[-1] // size :] = UNSPECIFIED
    return {**outputs, "sorted_token_ids": places, "expert_ids": of_blocks}


def _starts(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """Where each id begins, -1 first, and where the last one ends: [experts + 2]."""
    ids, size = inputs["topk_ids"].reshape(-1).long(), int(inputs["block_size"])
    counts = torch.bincount(ids + 1, minlength=int(inputs["experts"]) + 1)
    whole = (counts + size - 1) // size * size
    return torch.cat([torch.zeros(1, dtype=torch.int64), whole.cumsum(0)])
