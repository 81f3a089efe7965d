"""Per-token quantisation to fp8: codes and scales. Honest variants pass, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.types import Device
from tests.contracts.planted import contract, judged, planted

pytestmark = pytest.mark.second_tier
TASK = contract("per_token_quant_fp8")
CODED = "result.item[i] = __nv_fp8_e4m3(clamped(to_float(x.item[i]) * inverse));"
FAULTS = {
    "the maximum without the sign": (
        "largest = fmaxf(largest, fabsf(to_float(x.item[i])));",
        "largest = fmaxf(largest, to_float(x.item[i]));",
    ),
    "the last vector of a row left out": (
        "float largest = 0.0f;\n  for (int index = thread; index < hidden / kVector;",
        "float largest = 0.0f;\n  for (int index = thread; index < hidden / kVector - 1;",
    ),
    "the maximum of one warp": ("int warp = 1; warp < kWarps;", "int warp = 1; warp < 1;"),
    "another largest code": ("kLargest = 448.0f", "kLargest = 440.0f"),
    "a scale of 16 bits": (
        "const float scale = largest / kLargest;",
        "const float scale = __half2float(__float2half(largest / kLargest));",
    ),
    "the inverse scale stored": (
        "if (threadIdx.x == 0) output_s[token] = scale;",
        "if (threadIdx.x == 0) output_s[token] = 1.0f / scale;",
    ),
    "rounded towards zero": (
        CODED,
        "result.item[i] = __nv_fp8_e4m3(clamped(to_float(x.item[i]) * inverse * 0.96f));",
    ),
    "every code one step up": (
        CODED,
        CODED + " if (result.item[i].__x % 128 < 126) ++result.item[i].__x;",
    ),
    "one code in 25 one step up": (
        CODED,
        CODED + " if ((index * kVector + i) % 25 == 0 && result.item[i].__x % 128 < 126)"
        " ++result.item[i].__x;",
    ),
    "arithmetic in 16 bits": (
        CODED,
        "result.item[i] = __nv_fp8_e4m3(clamped(__half2float(__hmul(__float2half("
        "to_float(x.item[i])), __float2half(inverse)))));",
    ),
    "the other fp8": (CODED, CODED + " result.item[i].__x = __nv_fp8_e5m2("
                      "clamped(to_float(x.item[i]) * inverse)).__x;"),
    "a row of zeros divided by zero": (
        "const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;",
        "const float inverse = 1.0f / scale;",
    ),
    "448 over the maximum, which fast maths takes for zero where that is huge": (
        "const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;",
        "const float inverse = scale > 0.0f ? 448.0f / (scale * 448.0f) : 0.0f;",
    ),
    "warps from one token later": ("if (token >= tokens)", "if (token >= tokens - 1)"),
    "the scale of the token before": ("output_s[token] = scale;\n  quantize(output_q + token * "
                                      "hidden, row, scale, hidden, lane, 32);",
                                      "output_s[token] = scale;\n  quantize(output_q + token * "
                                      "hidden, row, output_s[token ? token - 1 : 0], hidden, lane,"
                                      " 32);"),
}  # fmt: skip


def test_honest_variants_pass_and_planted_faults_fail(device: Device) -> None:
    judged(TASK, planted(TASK.baseline, FAULTS), device)
