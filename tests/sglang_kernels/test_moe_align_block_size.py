"""The task moe_align_block_size: honest variants pass its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("moe_align_block_size")
FAULTS = {
    "the rest of a block lost": (
        "return (count + block_size - 1) / block_size",
        "return (count + block_size / 2) / block_size",
    ),
    "padding never written by one block": ("    if (pad) {\n", "    if (false) {\n"),
    "padding beyond the caller's array": (
        "vector < slots / 4;",
        "vector < (slots + 3) / 4;",
    ),
    "experts one too high": ("out.expert_ids[block] = low - 1;", "out.expert_ids[block] = low;"),
    "only the first block of an expert": (
        "slot < starts[worker + 1];",
        "slot < min(starts[worker] + block_size, starts[worker + 1]);",
    ),
    "the last expert's blocks are the one's before": (
        "int low = 0, high = buckets;",
        "int low = 0, high = buckets - 1;",
    ),
    "the last id lost": ("if (place >= ids) return;", "if (place >= ids - 1) return;"),
    "no atomics": (
        "sorted_token_ids[atomicAdd(&cumsum[static_cast<int>(topk_ids[place]) + 1], 1)] = place;",
        "sorted_token_ids[cumsum[static_cast<int>(topk_ids[place]) + 1]++] = place;",
    ),
    "ids of 64 bits read as of 32": (
        "place_ids<I><<<(ids + kScatter - 1) / kScatter, kScatter, 0, stream>>>(\n"
        "      out.sorted_token_ids, out.cumsum, topk_ids, ids);",
        "place_ids<int32_t><<<(ids + kScatter - 1) / kScatter, kScatter, 0, stream>>>(\n"
        "      out.sorted_token_ids, out.cumsum, reinterpret_cast<const int32_t*>(topk_ids), ids);",
    ),
    "at most 256 buckets": (
        "thread < buckets ? whole_blocks",
        "thread < min(buckets, 256) ? whole_blocks",
    ),
    "no barrier before the sums of warps": (
        "of_warps[warp] = sum;\n  __syncthreads();\n",
        "of_warps[warp] = sum;\n",
    ),
    "shared memory for one worker too few": (
        "((workers + 1) * buckets + buckets + 1)",
        "(workers * buckets + buckets + 1)",
    ),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("device", ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_honest_variants_pass_and_planted_faults_fail(device: str) -> None:
    judged(TASK, planted(TASK.baseline, FAULTS), pick_device(device))


def test_served_batches_weigh_most() -> None:
    """Decode steps are as many as SGLang's CUDA graphs hold; prefills are few."""
    few = sum(weight for case, weight in TASK.bench if case.dims["tokens"] <= 256)
    assert few > 0.7 * sum(weight for _, weight in TASK.bench)
    assert {case.dims["tokens"] for case, _ in TASK.bench} >= {1, 8, 16, 32, 64, 128, 256}
