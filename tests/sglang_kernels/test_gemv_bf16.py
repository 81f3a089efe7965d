"""The task gemv_bf16: an honest variant passes its check cases, planted faults fail, and its script
is what its files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.models.script import load_script
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from tests.contracts.planted import judged, planted
from tests.sglang_kernels import shipped

TASK = find_task("gemv_bf16")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)
ADDED = "for (int i = 0; i < kVector; ++i) sums[row] += values[i] * weights[i];"
FAULTS = {
    "sums in bfloat16": (
        ADDED,
        "for (int i = 0; i < kVector; ++i)"
        " sums[row] = __bfloat162float(__float2bfloat16_rn(sums[row] + values[i] * weights[i]));",
    ),
    "products in bfloat16": (
        ADDED,
        "for (int i = 0; i < kVector; ++i)"
        " sums[row] += __bfloat162float(__float2bfloat16_rn(values[i] * weights[i]));",
    ),
    "warps' sums in bfloat16": (
        "partial[row][warp] = sums[row];",
        "partial[row][warp] = __bfloat162float(__float2bfloat16_rn(sums[row]));",
    ),
    "results rounded towards zero": ("__float2bfloat16_rn(sum)", "__float2bfloat16_rz(sum)"),
    "a sum without its last vector": (
        "at < k; at += kThreads * kVector",
        "at + kVector < k; at += kThreads * kVector",
    ),
    "one warp left out": (
        "for (int i = 0; i < kWarps; ++i) sum",
        "for (int i = 1; i < kWarps; ++i) sum",
    ),
    "the rows of x from one place": ("(x + row * k + at)", "(x + at)"),
    "columns beyond 65,535 again from the first": (
        "const int64_t column = blockIdx.x;",
        "const int64_t column = blockIdx.x % 65536;",
    ),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("device", ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_honest_variants_pass_and_planted_faults_fail(device: str) -> None:
    judged(TASK, planted(TASK.baseline, FAULTS), pick_device(device))


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)


def test_served_matrices_are_timed_by_few_rows() -> None:
    """Projections of three models and LM heads; most steps serve one request."""
    assert {c.dims["m"] for c, _ in TASK.bench} == {1, 2, 4, 8, 16}
    one = sum(weight for case, weight in TASK.bench if case.dims["m"] == 1)
    assert one > 0.6 * sum(weight for _, weight in TASK.bench)
    assert max(c.dims["k"] for c, _ in TASK.bench) == TASK.dims["k"].max == 14336
    assert {c.dims["n"] for c, _ in TASK.bench} >= {2048, 4096, 5120, 6144, 24576, 28672, 151936}
