"""The task moe_sum_reduce: an honest variant passes its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("moe_sum_reduce")
FAULTS = {
    "the scale left out of the vectors": (
        "low.item[i] = from_float<__nv_bfloat16>(sums[i] * scale);",
        "low.item[i] = from_float<__nv_bfloat16>(sums[i]);",
    ),
    "the last expert left out where their number is not known": (
        "#pragma unroll 1\n    for (int expert = 0; expert < experts; ++expert) sum",
        "#pragma unroll 1\n    for (int expert = 0; expert < experts - 1; ++expert) sum",
    ),
    "eight experts where there are nine": (
        "case 9: return launch(Number<9>{});",
        "case 9: return launch(Number<8>{});",
    ),
    "sums rounded at every expert": (
        "for (int expert = 0; expert < kExperts; ++expert)"
        " sum += to_float(first[expert * hidden]);",
        "for (int expert = 0; expert < kExperts; ++expert)"
        " sum = to_float(from_float<T>(sum + to_float(first[expert * hidden])));",
    ),
    "both vectors from the same place": (
        "load(first + expert * hidden + kGroup / 2)",
        "load(first + expert * hidden)",
    ),
    "tokens of whole groups of eight only": (
        "ceil_div(hidden / kGroup, kWarp), ceil_div(tokens, kVectorWarps));",
        "ceil_div(hidden / kGroup, kWarp), static_cast<unsigned>(tokens / kVectorWarps));",
    ),
    "rows of no whole group by vectors": (
        "|| hidden % kGroup != 0) {",
        "|| hidden % 8 != 0) {",
    ),
    "rows beyond the last token": (
        "  if (token >= tokens || column >= hidden) return;\n  const T* first",
        "  if (column >= hidden) return;\n  const T* first",
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
