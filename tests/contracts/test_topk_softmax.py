"""Top-k softmax with ties: several answers are legal. Honest variants pass, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device, Wrong
from tests.contracts.planted import contract, judged, planted

pytestmark = pytest.mark.second_tier
TASK = contract("topk_softmax")
FAULTS = {
    "the chosen expert stays": ("if (i * 32 + lane == expert) held[i] = -1.0f;", ""),
    "ids one too high": (
        "topk_ids[token * topk + round] = expert;", "topk_ids[token * topk + round] = expert + 1;",
    ),
    "never renormalised": ("if (renormalize && lane == 0)", "if (false && lane == 0)"),
    "always renormalised": ("if (renormalize && lane == 0)", "if (lane == 0)"),
    "the last expert left out": (
        "const int expert = i * 32 + lane;\n    held[i] = expert < experts ?",
        "const int expert = i * 32 + lane;\n    held[i] = expert < experts - (experts > 4) ?",
    ),
    "at most 256 experts": (
        "const bool there = i * 32 + lane < experts;",
        "const bool there = i * 32 + lane < min(experts, 256);",
    ),
    "no maximum subtracted": (
        "held[i] = there ? expf(held[i] - largest) : -1.0f;",
        "held[i] = there ? expf(held[i]) : -1.0f;",
    ),
    "weights of 16 bits": (
        "topk_weights[token * topk + round] = best * inverse;",
        "topk_weights[token * topk + round] = __half2float(__float2half(best * inverse));",
    ),
    "the last place not written": (
        "for (int round = 0; round < topk; ++round) {\n    float best",
        "for (int round = 0; round < topk - (topk > 8); ++round) {\n    float best",
    ),
    "in ascending order": (
        "topk_ids[token * topk + round] = expert;",
        "topk_ids[token * topk + topk - 1 - round] = expert;",
    ),
    "the neighbour's best is not asked": (
        "for (int lanes = 16; lanes > 0; lanes /= 2) {\n      const float other",
        "for (int lanes = 16; lanes > 1; lanes /= 2) {\n      const float other",
    ),
    "ties to different experts in different lanes": (
        "if (other > best || (other == best && other_expert < expert)) {", "if (other > best) {",
    ),
    "the sum of the first warp's experts": (
        "sum += there ? held[i] : 0.0f;", "sum += there && i < 4 ? held[i] : 0.0f;",
    ),
}  # fmt: skip


def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    found = judged(TASK, planted(TASK.baseline, FAULTS), device)
    # An expert that stands twice is named.
    wrong = found["the chosen expert stays"]
    assert isinstance(wrong, Wrong) and wrong.argument in ("topk_ids", "topk_weights")
    wrong = found["ids one too high"]
    assert isinstance(wrong, Wrong) and wrong.reason == "not_accepted"
    assert wrong.argument == "topk_ids" and len(wrong.index) == 2 and "expert" in wrong.note
