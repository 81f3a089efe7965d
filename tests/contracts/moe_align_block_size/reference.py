"""The truth of moe_align_block_size; its outputs in a form that can be compared."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

UNSPECIFIED = -1


def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """All inputs are drawn by the judge."""
    return {}


def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All int64, sorted by place within each expert; what is not specified is UNSPECIFIED."""
    ids, block = inputs["topk_ids"].reshape(-1).long(), int(inputs["block_size"])
    experts = int(inputs["experts"])
    starts = _starts(ids, experts, block)
    most = len(ids) + experts * (block - 1)
    places = torch.full((most,), UNSPECIFIED)
    of_blocks = torch.full((-(-most // block),), UNSPECIFIED)
    for expert in range(experts):
        first, end = int(starts[expert]), int(starts[expert + 1])
        own = (ids == expert).nonzero().reshape(-1)
        places[first:end] = len(ids)
        places[first : first + len(own)] = own
        of_blocks[first // block : end // block] = expert
    return {
        "sorted_token_ids": places, "expert_ids": of_blocks,
        "num_tokens_post_pad": starts[-1:].clone(), "cumsum": starts,
    }  # fmt: skip


def canonical(
    outputs: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The places of each expert in ascending order; UNSPECIFIED beyond the last expert."""
    ids, block = inputs["topk_ids"].reshape(-1).long(), int(inputs["block_size"])
    starts = _starts(ids, int(inputs["experts"]), block).tolist()
    places, of_blocks = (outputs[name].clone() for name in ("sorted_token_ids", "expert_ids"))
    for first, end in pairwise(starts):
        places[first:end] = places[first:end].sort().values
    places[starts[-1] :] = UNSPECIFIED
    of_blocks[starts[-1] // block :] = UNSPECIFIED
    return {**outputs, "sorted_token_ids": places, "expert_ids": of_blocks}


def _starts(ids: torch.Tensor, experts: int, block: int) -> torch.Tensor:
    """Where each expert begins, and where the last one ends: [experts + 1]."""
    counts = torch.bincount(ids, minlength=experts)
    whole = (counts + block - 1) // block * block
    return torch.cat([torch.zeros(1, dtype=torch.int64), whole.cumsum(0)])
