"""Paged KV-cache write: slots without repetition, -1 for padding, blocks that lie apart. Honest
variants pass, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device
from tests.contracts.planted import contract, judged, planted

pytestmark = pytest.mark.second_tier
TASK = contract("reshape_and_cache")
FAULTS = {
    "padding is written to slot 0": ("if (slot < 0) return;", "if (slot < -1) return;"),
    "slot 0 is taken for padding": ("if (slot < 0) return;", "if (slot <= 0) return;"),
    "slots of 32 bits": (
        "slot = slot_mapping[token];",
        "slot = reinterpret_cast<const int*>(slot_mapping)[token];",
    ),
    "the token is its slot": ("slot = slot_mapping[token];", "slot = token;"),
    "block and place exchanged": (
        "slot / block_size * strides.block + slot % block_size * row",
        "slot % block_size * strides.block + slot / block_size * row",
    ),
    "blocks lie one after the other": (
        "slot / block_size * strides.block",
        "slot / block_size * block_size * row",
    ),
    "heads lie one after the other": (
        "source[i / head_size * strides.head + i % head_size]",
        "source[i]",
    ),
    "the last head left out": ("i < row; i += blockDim.x", "i < row - head_size; i += blockDim.x"),
    "the key in both caches": ("copy(value + token * v.token", "copy(key + token * v.token"),
    "the value's strides are the key's": (
        "copy(value + token * v.token, value_cache, v,",
        "copy(value + token * k.token, value_cache, k,",
    ),
    "rounded to multiples of two": ("target[i] = source[", "target[i] = ~T(1) & source["),
    "the first token left out": ("if (slot < 0) return;", "if (slot < 0 || !token) return;"),
    "blocks of 16": ("slot_mapping[token];", "slot_mapping[token]; block_size = 16;"),
    "float32 as 16 bits": ("if (dtype == 0)", "if (dtype == 7)"),
    "a slot beside it cleared": (
        "if (slot < 0) return;",
        "if (slot < 0) return;\n  if (!threadIdx.x && slot % block_size) "
        "key_cache[slot / block_size * k.block + (slot % block_size - 1) * heads * head_size] = 0;",
    ),
}


def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    judged(TASK, planted(TASK.baseline, FAULTS), device)
