"""The task qk_rmsnorm_rope: an honest variant passes its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("qk_rmsnorm_rope")
FAULTS = {
    "the key by the query's weight": (
        "launch_norm(key, k_weight, eps, rope)",
        "launch_norm(key, q_weight, eps, rope)",
    ),
    "turned before it is normed": (
        "  if (const cudaError_t error = launch_norm(query, q_weight, eps, rope)) return error;\n"
        "  if (const cudaError_t error = launch_norm(key, k_weight, eps, rope)) return error;\n"
        "  if (rope.head_dim <= kWarp * kPart) {\n"
        "    return is_neox ? launch_rope<T, kPart, true>(query, key, rope)\n"
        "                   : launch_rope<T, kPart, false>(query, key, rope);\n  }",
        "  if (rope.head_dim <= kWarp * kPart) {\n"
        "    if (is_neox) launch_rope<T, kPart, true>(query, key, rope);\n"
        "    else launch_rope<T, kPart, false>(query, key, rope);\n"
        "    launch_norm(query, q_weight, eps, rope);\n"
        "    return launch_norm(key, k_weight, eps, rope);\n  }\n"
        "  launch_norm(query, q_weight, eps, rope);\n  launch_norm(key, k_weight, eps, rope);",
    ),
    "eps left out": ("/ static_cast<float>(head_dim) + eps)", "/ static_cast<float>(head_dim))"),
    "the sums of one warp only": ("threadIdx.x < warps ?", "threadIdx.x < 1 ?"),
    "no barrier before the sums are read": (
        "  warp_sums[threadIdx.y] = squares;\n  __syncthreads();",
        "  warp_sums[threadIdx.y] = squares;",
    ),
    "the other sign": ("(first ? -other[i] : other[i])", "(first ? other[i] : -other[i])"),
    "the last vector of what is turned left out": (
        "if (at < rotary_dim) {\n",
        "if (at + kSize < rotary_dim) {\n",
    ),
    "sines and cosines of head_dim to a row": (
        "static_cast<int>(head_dim), static_cast<int>(rotary_dim), stream}",
        "static_cast<int>(head_dim), static_cast<int>(head_dim), stream}",
    ),
    "the position of a block's first token": (
        "positions[token] * rotary_dim",
        "positions[blockIdx.x * blockDim.y] * rotary_dim",
    ),
    "positions of 32 bits": (
        "positions[token] * rotary_dim",
        "reinterpret_cast<const int*>(positions)[token] * rotary_dim",
    ),
    "tokens that fill no block left out": (
        "(rope.tokens + block.y - 1) / block.y);",
        "rope.tokens / block.y);",
    ),
    "the query's head stride for the key": (
        "static_cast<T*>(key), key_stride_0, key_stride_1,",
        "static_cast<T*>(key), key_stride_0, query_stride_1,",
    ),
    "heads one after the other whatever their stride": (
        "head_of(heads, blockIdx.x / heads.count, blockIdx.x % heads.count);",
        "heads.data + static_cast<int64_t>(blockIdx.x) * head_dim;",
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
