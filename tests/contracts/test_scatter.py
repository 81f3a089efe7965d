"""Every word of schema 2 in one task: two type variables, relations, a view, slots, a null pointer,
a workspace and a bool."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device
from tests.contracts.planted import contract, judged, planted

TASK = contract("scatter")
FAULTS = {
    "a null pointer is read": ("if (bias) value +=", "value +="),
    "the bias left out": ("if (bias) value +=", "if (false) value +="),
    "the workspace is taken for zeros": (
        "scratch[token] = int(slot[token]);",
        "scratch[token] += int(slot[token]);",
    ),
    "past the end of the workspace": (
        "if (token < tokens) scratch[token]",
        "if (token < tokens) scratch[token + 64]",
    ),
    "indices are always of 64 bits": ("if (i_dtype == 8)", "if (i_dtype >= 7)"),
    "indices are always of 32 bits": ("if (i_dtype == 8)", "if (i_dtype == 9)"),
    "the bool is not asked for": ("T(causal ? value : -value)", "T(value)"),
    "the bool is a number": ("T(causal ? value : -value)", "T((int(causal) * 3 - 1) * value)"),
    "no entry is slot 0": (
        "if (slot < 0) return;",
        "if (slot < 0) cache[threadIdx.x] = T(0.0f); if (slot < 0) return;",
    ),
    "the head's stride is head_size": ("i / head_size * stride1", "i / head_size * head_size"),
}


@pytest.mark.second_tier
def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    judged(TASK, planted(TASK.baseline, FAULTS), device)
