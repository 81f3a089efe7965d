"""The task rotary_embedding: honest variants pass its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("rotary_embedding")
TURNED = "head[first] = static_cast<T>(x * cos - y * sin);"
FAULTS = {
    "the other sign": (TURNED, "head[first] = static_cast<T>(x * cos + y * sin);"),
    "sin and cos exchanged": (
        "  const float cos = static_cast<float>(cos_row[pair]);\n"
        "  const float sin = static_cast<float>(cos_row[half + pair]);",
        "  const float sin = static_cast<float>(cos_row[pair]);\n"
        "  const float cos = static_cast<float>(cos_row[half + pair]);",
    ),
    "the style is not asked for": ("is_neox ? rotary_embedding_kernel<T, true> :", ""),
    "positions of 32 bits": (
        "positions[blockIdx.x] * rot_dim",
        "reinterpret_cast<const int*>(positions)[blockIdx.x] * rot_dim",
    ),
    "the token is its position": ("positions[blockIdx.x] * rot_dim", "blockIdx.x * rot_dim"),
    "the key's heads with the query's strides": (
        "static_cast<T*>(key), key_stride_0, key_stride_1,",
        "static_cast<T*>(key), key_stride_0, query_stride_1,",
    ),
    "tokens of the query lie one after the other": (
        "static_cast<T*>(query), query_stride_0,",
        "static_cast<T*>(query), heads * head_size,",
    ),
    "the last head of the key left out": (
        "static_cast<int>(kv_heads)}",
        "static_cast<int>(kv_heads - 1)}",
    ),
    "products and sums in 16 bits, as upstream": (
        TURNED,
        "head[first] = static_cast<T>(static_cast<float>(static_cast<T>(x * cos))"
        " - static_cast<float>(static_cast<T>(y * sin)));",
    ),
    "rows of head_size in the table": (
        "cos_sin_cache, tokens, rot_dim, is_neox",
        "cos_sin_cache, tokens, head_size, is_neox",
    ),
    "a key that is not there": ("if (key.data != nullptr) rotate", "rotate"),
    "pairs beyond the block's threads left out": (
        "i < pairs; i += blockDim.x",
        "i < min(pairs, 512); i += blockDim.x",
    ),
    "rows of 65,535 tokens only": (
        "static_cast<unsigned>(tokens)",
        "static_cast<unsigned>(tokens < 65535 ? tokens : 65535)",
    ),
    "dtype codes exchanged": (
        "case 1: return with(__half{});",
        "case 1: return with(__nv_bfloat16{});",
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
