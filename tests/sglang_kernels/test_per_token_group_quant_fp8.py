"""The task per_token_group_quant_fp8: an honest variant passes its check cases, planted faults do
not."""

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

TASK = find_task("per_token_group_quant_fp8")
NARROW, BASELINE = narrowed(TASK, "bfloat16")
DEVICES = ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)]
FAULTS = {
    "shuffles that name lanes 0 to 15 only": (
        "const unsigned lanes = 0xffffu << (threadIdx.x % 32 / kThreads * kThreads);",
        "const unsigned lanes = 0xffffu;",
    ),
    "the maximum of eight lanes": ("int apart = kThreads / 2;", "int apart = kThreads / 4;"),
    "codes of the group's first elements": (
        "again = load(from + index * kVector);",
        "again = load(from);",
    ),
    "the last element left out of the maximum": (
        "for (int i = 0; i < kVector; ++i) largest",
        "for (int i = 0; i < kVector - 1; ++i) largest",
    ),
    "the maximum without the sign": ("fabsf(to_float(x.item[i]))", "to_float(x.item[i])"),
    "no least maximum": ("float largest = kLeastMaximum;", "float largest = 1e-20f;"),
    "scales by rows only": ("column_major ? 1 : row_groups,", "row_groups,"),
    "columns of as many scales as there are tokens": (
        "column_major ? column : 1);",
        "column_major ? tokens : 1);",
    ),
    "the scale of a quotient of 16 bits": (
        "% row_groups * group_stride] = scale;",
        "% row_groups * group_stride] = __half2float(__float2half(scale));",
    ),
    "quotients of 16 bits": (
        "const float value = to_float(again.item[i]) / scale;",
        "const float value = __bfloat162float(__float2bfloat16(to_float(again.item[i]) / scale));",
    ),
    "blocks of 16 groups where 8 divide their number": (
        "groups % (2 * of_block) == 0) of_block *= 2;",
        "groups % (of_block > 4 ? 8 : 2 * of_block) == 0) of_block *= 2;",
    ),
    "groups of 65,535 blocks only": (
        "<<<static_cast<unsigned>(groups / of_block)",
        "<<<static_cast<unsigned>(groups / of_block > 65535 ? 65535 : groups / of_block)",
    ),
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


def test_scales_lie_by_rows_or_by_columns() -> None:
    scales = TASK.args[2]
    case = next(one for one in TASK.check if one.dims == {"tokens": 5, "hidden": 1408})
    rows = case.model_copy(update={"scalars": {"column_major": 0.0}})
    assert scales.strides_of(case) == (1, 8) and scales.strides_of(rows) == (11, 1)
