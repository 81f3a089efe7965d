"""Rotary embedding: int64 positions, strided query and key of different head counts, in place.
Honest variants pass, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device
from tests.contracts.planted import contract, judged, planted

pytestmark = pytest.mark.second_tier
TASK = contract("rotary_embedding")
TURNED = "head[first] = T(x * cos - y * sin);"
FAULTS = {
    "the other sign": (TURNED, "head[first] = T(x * cos + y * sin);"),
    "sin and cos exchanged": (
        "cos = float(table[pair]), sin = float(table[half + pair])",
        "sin = float(table[pair]), cos = float(table[half + pair])",
    ),
    "the style is not asked for": (
        "const int first = neox ? pair : 2 * pair,", "const int first = pair,",
    ),
    "positions of 32 bits": (
        "positions[token] * 2 * half", "reinterpret_cast<const int*>(positions)[token] * 2 * half",
    ),
    "the token is its position": ("positions[token] * 2 * half", "token * 2 * half"),
    "the position of the next token": (
        "positions[token] * 2 * half",
        "positions[token + 1 < gridDim.x ? token + 1 : 0] * 2 * half",
    ),
    "the key's heads with the query's strides": (
        "turn(key + token * k.token_stride + i / half * k.head_stride",
        "turn(key + token * k.token_stride + i / half * q.head_stride",
    ),
    "tokens lie one after the other": (
        "turn(query + token * q.token_stride", "turn(query + token * q.heads * q.head_stride",
    ),
    "the last head of the key left out": ("i < k.heads * half", "i < (k.heads - 1) * half"),
    "as many heads in the key as in the query": ("i < k.heads * half", "i < q.heads * half"),
    "the query in 16 bits": (TURNED, "head[first] = T(x) * T(cos) - T(y) * T(sin);"),
    "rows of head_size in the table": (
        "const int half = int(rot_dim / 2);", "const int half = int(head_size / 2);",
    ),
    "the first result read again": (
        "head[second] = T(y * cos + x * sin);",
        "head[second] = T(y * cos + float(head[first]) * sin);",
    ),
    "dtype codes exchanged": ("if (dtype == 1)", "if (dtype == 2)"),
}  # fmt: skip


def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    judged(TASK, planted(TASK.baseline, FAULTS), device)
