"""moe_align_block_size: integers, cumulative sums, any order within an expert. Honest variants
pass, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device
from tests.contracts.planted import contract, judged, planted

pytestmark = pytest.mark.second_tier
TASK = contract("moe_align_block_size")
FAULTS = {
    "a block too many for full ones": (
        "(counts[thread] + block_size - 1) / block_size * block_size",
        "(counts[thread] + block_size) / block_size * block_size",
    ),
    "the rest of a block lost": (
        "(counts[thread] + block_size - 1) / block_size * block_size",
        "(counts[thread] + block_size / 2) / block_size * block_size",
    ),
    "sums that hold the expert itself": ("cumsum[thread] = start;", "cumsum[thread] = end;"),
    "padding of zeros": ("sorted_token_ids[slot] = numel;", "sorted_token_ids[slot] = 0;"),
    "no padding": (
        "slot += kThreads) sorted_token_ids[slot] = numel;", "slot += kThreads) continue;",
    ),
    "one expert before": (
        "expert_ids[block] = thread;", "expert_ids[block] = thread ? thread - 1 : 0;",
    ),
    "only the first block of an expert": (
        "block < end / block_size;", "block < min(start + block_size, end) / block_size;",
    ),
    "the last token lost": ("if (place >= numel) return;", "if (place >= numel - 1) return;"),
    "the token in the place of its place": (
        "sorted_token_ids[slot] = place;", "sorted_token_ids[slot] = place / 2;",
    ),
    "the end not written": ("*num_tokens_post_pad = end;", ""),
    "the last sum not written": ("cumsum[experts] = end;", ""),
    "no atomics": (
        "const int slot = atomicAdd(&counters[static_cast<int>(topk_ids[place])], 1);",
        "const int slot = counters[static_cast<int>(topk_ids[place])]++;",
    ),
    "ids of 64 bits read as of 32": (
        "scatter_kernel<I><<<", "scatter_kernel<int32_t><<<",
    ),
    "at most 256 experts": ("if (thread < experts) {", "if (thread < min(experts, 256)) {"),
    "sums of neighbours only": ("distance < kThreads", "distance < 64"),
}  # fmt: skip


def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    faults = planted(TASK.baseline, FAULTS)
    name = "ids of 64 bits read as of 32"
    faults[name] = faults[name].replace(
        "      ids, static_cast<int*>(sorted_token_ids), static_cast<int*>(counters), numel);",
        "      reinterpret_cast<const int32_t*>(ids), static_cast<int*>(sorted_token_ids),"
        " static_cast<int*>(counters), numel);",
    )
    judged(TASK, faults, device)
