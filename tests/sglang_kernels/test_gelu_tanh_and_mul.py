"""The task gelu_tanh_and_mul: an honest variant passes its check cases, planted faults fail."""

from __future__ import annotations

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted

TASK = find_task("gelu_tanh_and_mul")
FAULTS = {
    "the cube without its factor": ("-0.1029432396f", "-0.1029087065f"),
    "gate and up exchanged": (
        "from_float<T>(gelu(to_float(x.item[i])) * to_float(y.item[i]));",
        "from_float<T>(gelu(to_float(y.item[i])) * to_float(x.item[i]));",
    ),
    "the other gelu": (
        "return value * (1.0f / (1.0f + exp2f(exponent)));",
        "return 0.5f * value * (1.0f + erff(0.70710678f * value));",
    ),
    "a tangent that is imprecise": (
        "return value * (1.0f / (1.0f + exp2f(exponent)));",
        "return 0.5f * value * (1.0f + tanhf(-0.34657359f * exponent));",
    ),
    "gelu rounded before the product": (
        "from_float<T>(gelu(to_float(x.item[i])) * to_float(y.item[i]));",
        "from_float<T>(to_float(from_float<T>(gelu(to_float(x.item[i])))) * to_float(y.item[i]));",
    ),
    "the last vector of a row left out": (
        "for (int index = thread; index < d / kSize; index += threads) {",
        "for (int index = thread; index < d / kSize - 1; index += threads) {",
    ),
    "an input that overflows": (
        "const float exponent =",
        "if (value > 80.0f) value = 80.0f;\n  const float exponent =",
    ),
    "tokens by 16 bits": (
        "const int64_t token = blockIdx.x;",
        "const int64_t token = blockIdx.x & 0xffff;",
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
