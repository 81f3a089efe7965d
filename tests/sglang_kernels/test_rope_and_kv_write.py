"""The task rope_and_kv_write: an honest variant passes its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("rope_and_kv_write")
FAULTS = {
    "the key is written before it is turned": (
        "    if (const cudaError_t error = launch_rope(q, k, rope, is_neox)) return error;\n",
        "    launch_write(rows_of<T>(key, k_cache, key_stride, k_cache_stride),\n"
        "                 rows_of<T>(value, v_cache, value_stride, v_cache_stride), cache_loc,\n"
        "                 tokens, kv_heads * head_dim * 2, stream);\n"
        "    return launch_rope(q, k, rope, is_neox);\n",
    ),
    "the key in both caches": (
        "rows_of<T>(value, v_cache, value_stride,",
        "rows_of<T>(key, v_cache, key_stride,",
    ),
    "slots of both caches equally far apart": (
        "value_stride, v_cache_stride), cache_loc",
        "value_stride, k_cache_stride), cache_loc",
    ),
    "the token is its slot": ("slot = cache_loc[token];", "slot = token;"),
    "slot 0 is left as it was": (
        "  const int64_t slot = cache_loc[token];\n",
        "  const int64_t slot = cache_loc[token];\n  if (slot == 0) return;\n",
    ),
    "rows of whole 256 bytes only": (
        "const bool both = row_bytes % kLong == 0;",
        "const bool both = row_bytes >= kLong;",
    ),
    "tokens that fill no block of the write left out": (
        "(tokens + kWarps - 1) / kWarps)",
        "(tokens / kWarps ? tokens / kWarps : 1))",
    ),
    "the style is not asked for": (
        "    return is_neox ? launch_rope<T, kPart, true>(query, key, rope)\n"
        "                   : launch_rope<T, kPart, false>(query, key, rope);",
        "    return launch_rope<T, kPart, true>(query, key, rope);",
    ),
    "the last vector of what is turned left out": (
        "if (at < rotary_dim) {\n",
        "if (at + kSize < rotary_dim) {\n",
    ),
    "angles in 16 bits": (
        "x[i] = x[i] * turn.cos[i] + (first",
        "x[i] = x[i] * __half2float(__float2half_rn(turn.cos[i])) + (first",
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
