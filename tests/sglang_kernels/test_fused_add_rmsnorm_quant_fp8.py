"""The task fused_add_rmsnorm_quant_fp8: a fused variant that rounds nothing in between passes its
check cases, planted faults fail."""

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

TASK = find_task("fused_add_rmsnorm_quant_fp8")
NARROW, BASELINE = narrowed(TASK, "bfloat16")
DEVICES = ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)]
FAULTS = {
    "eps left out": ("/ static_cast<float>(h) + eps)", "/ static_cast<float>(h))"),
    "the squares of the input alone": (
        "squares += sum.item[i] * sum.item[i];",
        "squares += to_float(x.item[i]) * to_float(x.item[i]);",
    ),
    "the residual as it was": ("      store(residual_row + at, r);\n", ""),
    "rows of the residual as far apart as those of the input": (
        "residual + token * residual_stride;",
        "residual + token * input_stride;",
    ),
    "the weight left out": ("* scale * to_float(w.item[i]));", "* scale);"),
    "codes of the input": (
        "return kernel(between, static_cast<__nv_fp8_e4m3*>(output_q)",
        "return kernel(static_cast<const T*>(input), static_cast<__nv_fp8_e4m3*>(output_q)",
    ),
    "results between the kernels of eight bits": (
        "from_float<T>(sum.item[i] * scale * to_float(w.item[i]));",
        "from_float<T>(0.05f * rintf(20.0f * sum.item[i] * scale * to_float(w.item[i])));",
    ),
    "no barrier before the sums are read": (
        "  warp_sums[threadIdx.y] = squares;\n  __syncthreads();",
        "  warp_sums[threadIdx.y] = squares;",
    ),
    "a row of zeros divided by zero": (
        "const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;",
        "const float inverse = 1.0f / scale;",
    ),
    "vectors of eight whatever the residual's stride": (
        "(h | input_stride | residual_stride) % 8",
        "(h | input_stride) % 8",
    ),
    "the maximum of four warps": ("lane < kWarps ? of_warps[lane]", "lane < 4 ? of_warps[lane]"),
    "warps from one token later": ("if (token >= tokens)", "if (token >= tokens - 1)"),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("device", DEVICES)
def test_an_honest_variant_passes(device: str) -> None:
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
