"""The task silu_and_mul_group_quant_fp8: a fused variant that rounds nothing in between passes its
check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("silu_and_mul_group_quant_fp8")
FAULTS = {
    "silu of the second half": (
        "from_float(silu(to_float(x.item[i])) * to_float(y.item[i]));",
        "from_float(to_float(x.item[i]) * silu(to_float(y.item[i])));",
    ),
    "silu without its sign": ("expf(-value)", "expf(value)"),
    "the end of a long row by the wrong half": (
        "const float y = to_float(up[start + index]);",
        "const float y = to_float(gate[start + index]);",
    ),
    "the first pass over a row only": (
        "index < d / kVector; index += threads",
        "index < d / kVector; index += d",
    ),
    "activations of eight bits": (
        "    row[start + index] = from_float(silu(x) * y);",
        "    row[start + index] = from_float(static_cast<float>(__nv_fp8_e4m3(silu(x) * y)));",
    ),
    "the scale of the rows of the input": (
        "launch_quant(between, output_q,",
        "launch_quant(static_cast<const T*>(input), output_q,",
    ),
    "quantised before there is anything": (
        "  const cudaError_t error = launch_silu(between, input, tokens, d, stream);",
        "  const cudaError_t error = cudaSuccess;",
    ),
    "shuffles of the wrong lanes": (
        "0xffffu << (threadIdx.x % 32 / kGroupThreads * kGroupThreads)",
        "0xffffu",
    ),
    "the maximum of eight lanes": (
        "int apart = kGroupThreads / 2;",
        "int apart = kGroupThreads / 4;",
    ),
    "no least maximum": ("float largest = kLeastMaximum;", "float largest = 1e-20f;"),
    "scales by columns only": ("column_major ? 1 : row_groups,", "1,"),
    "columns of as many scales as there are tokens": (
        "column_major ? column : 1);",
        "column_major ? tokens : 1);",
    ),
    "a scale for another largest code": (
        "const float scale = largest * (1.0f / kLargest);",
        "const float scale = largest * (1.0f / 440.0f);",
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
