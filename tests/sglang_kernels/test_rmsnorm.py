"""The task rmsnorm: an honest variant passes its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("rmsnorm")
FAULTS = {
    "the mean of the squares as their sum": (
        "warp_sums[0] / static_cast<float>(h) + eps",
        "warp_sums[0] + eps",
    ),
    "eps left out": ("/ static_cast<float>(h) + eps)", "/ static_cast<float>(h))"),
    "rounded before the weight": (
        "from_float<T>(to_float(x.item[i]) * scale * to_float(w.item[i]));",
        "from_float<T>(to_float(from_float<T>(to_float(x.item[i]) * scale))"
        " * to_float(w.item[i]));",
    ),
    "the last vector of a row left out of the sum": (
        "    if (at < h) {\n      const Vector<T, kSize> x = load<kSize>(input_row + at);\n#pragma",
        "    if (at + kSize < h) {\n      const Vector<T, kSize> x = load<kSize>(input_row + at);\n"
        "#pragma",
    ),
    "rows of the output as far apart as those of the input": (
        "T* out_row = out + blockIdx.x * out_stride;",
        "T* out_row = out + blockIdx.x * input_stride;",
    ),
    "the weight of the next vector": (
        "load<kSize>(weight + at);",
        "load<kSize>(weight + (at + kSize < h ? at + kSize : at));",
    ),
    "the sums of sixteen warps only": (
        "threadIdx.x < static_cast<unsigned>(warps) ?",
        "threadIdx.x < min(warps, 16) ?",
    ),
    "no barrier before the sums are read": (
        "  warp_sums[threadIdx.y] = squares;\n  __syncthreads();",
        "  warp_sums[threadIdx.y] = squares;",
    ),
    "rows of 65,535 tokens only": (
        "<<<static_cast<unsigned>(tokens), block",
        "<<<static_cast<unsigned>(tokens < 65535 ? tokens : 65535), block",
    ),
    "vectors where the output's rows lie apart by odd elements": (
        "(h | out_stride | input_stride)",
        "(h | input_stride)",
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
