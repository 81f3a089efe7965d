"""The task per_token_quant_fp8: honest variants pass its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import (
    narrowed,
    planted,
    require_caught,
    require_honest,
    variants,
    verdicts,
)

TASK = find_task("per_token_quant_fp8")
NARROW, BASELINE = narrowed(TASK, "bfloat16")
DEVICES = ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)]
CODED = "result.item[i] = __nv_fp8_e4m3(clamped(to_float(x.item[i]) * inverse));"
FAULTS = {
    "the maximum without the sign": (
        "largest = fmaxf(largest, fabsf(to_float(x.item[i])));",
        "largest = fmaxf(largest, to_float(x.item[i]));",
    ),
    "the last vector of a row left out": (
        "float largest = 0.0f;\n  for (int index = thread; index < hidden / kSize;",
        "float largest = 0.0f;\n  for (int index = thread; index < hidden / kSize - 1;",
    ),
    "the maximum of four warps": ("lane < kWarps ? of_warps[lane]", "lane < 4 ? of_warps[lane]"),
    "a scale of 16 bits": (
        "      scale = largest / kLargest;",
        "      scale = __half2float(__float2half(largest / kLargest));",
    ),
    "one code in 25 one step up": (
        CODED,
        CODED + " if ((index * kSize + i) % 25 == 0 && result.item[i].__x % 128 < 126)"
        " ++result.item[i].__x;",
    ),
    "arithmetic in 16 bits": (
        CODED,
        "result.item[i] = __nv_fp8_e4m3(clamped(__half2float(__hmul(__float2half("
        "to_float(x.item[i])), __float2half(inverse)))));",
    ),
    "a row of zeros divided by zero": (
        "const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;",
        "const float inverse = 1.0f / scale;",
    ),
    "448 over the maximum, which fast maths takes for zero where that is huge": (
        "const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;",
        "const float inverse = scale > 0.0f ? 448.0f / (scale * 448.0f) : 0.0f;",
    ),
    "no barrier before the scale is read": (
        "  __syncthreads();\n  quantize<kSize>",
        "  quantize<kSize>",
    ),
    "warps from one token later": ("if (token >= tokens)", "if (token >= tokens - 1)"),
    "groups of 16 where 8 divide the row": ("if (hidden % 16 == 0)", "if (hidden % 8 == 0)"),
    "one word for the scales of a block's warps, as upstream had": (
        "const float scale = warp_largest(largest_of<kSize>(row, hidden, lane, kWarp)) / kLargest;",
        "__shared__ float scale;\n"
        "  scale = warp_largest(largest_of<kSize>(row, hidden, lane, kWarp)) / kLargest;",
    ),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("device", DEVICES)
def test_honest_variants_pass(device: str) -> None:
    require_honest(TASK, verdicts(TASK, variants(TASK.name), pick_device(device)))


@pytest.mark.second_tier
@pytest.mark.parametrize("device", DEVICES)
def test_planted_faults_fail(device: str) -> None:
    faults = planted(BASELINE, FAULTS)
    require_caught(faults, verdicts(NARROW, faults, pick_device(device)))


def test_served_batches_weigh_most() -> None:
    """Decode steps are as many as SGLang's CUDA graphs hold; prefills are few."""
    few = sum(weight for case, weight in TASK.bench if case.dims["tokens"] <= 256)
    assert few > 0.7 * sum(weight for _, weight in TASK.bench)
    assert {case.dims["tokens"] for case, _ in TASK.bench} >= {1, 8, 16, 32, 64, 128, 256}
