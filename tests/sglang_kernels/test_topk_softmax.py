"""The task topk_softmax: honest variants pass its check cases, planted faults fail."""

from __future__ import annotations

import re

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Wrong
from tests.contracts.planted import (
    narrowed,
    planted,
    require_caught,
    require_honest,
    variants,
    verdicts,
)

TASK = find_task("topk_softmax")
NARROW, BASELINE = narrowed(TASK, "float32")
OTHER_NUMBERS = re.compile(r"      case (4|8|16|32|128|512): return in_registers<.*\n")
DEVICES = ["virtual", pytest.param("cuda", marks=pytest.mark.gpu)]
FAULTS = {
    "the chosen expert stays": (
        "expert % L::kVector] = kCleared;",
        "expert % L::kVector] += 0.0f;",
    ),
    "ids one too high": (
        "topk_ids[token * topk + round] = expert;",
        "topk_ids[token * topk + round] = expert + 1;",
    ),
    "always renormalised": ("if (renormalize && threadIdx.x == 0)", "if (threadIdx.x == 0)"),
    "the bias of the vector's first expert": (
        "held[i] = logit_of(held[i], cap, bias, expert);",
        "held[i] = logit_of(held[i], cap, bias, first);",
    ),
    "upstream's tangent": (
        "value = cap * (1.0f - 2.0f / (1.0f + expf(2.0f * (value / cap))));",
        "value = cap * tanhf(value / cap);",
    ),
    "weights of 16 bits": (
        "topk_weights[token * topk + round] = best;",
        "topk_weights[token * topk + round] = __half2float(__float2half(best));",
    ),
    "the last of an odd number not written": (
        "first < topk; first += kCount",
        "first + kCount <= topk; first += kCount",
    ),
    "ties to different experts in different lanes": (
        "if (other > best || (other == best && other_expert < expert)) {",
        "if (other > best) {",
    ),
    "vectors of neighbours": (
        "from + v * L::kVector * L::kLanes);",
        "from + v * L::kVector);",
    ),
    "no barrier before the next experts": (
        "    }\n    __syncthreads();\n  }\n  if (renormalize",
        "    }\n  }\n  if (renormalize",
    ),
    "whole blocks of rows only": (
        "static_cast<unsigned>((tokens + kRows - 1) / kRows)",
        "static_cast<unsigned>(tokens < kRows ? 1 : tokens / kRows)",
    ),
}


@pytest.mark.second_tier
@pytest.mark.parametrize("device", DEVICES)
def test_honest_variants_pass(device: str) -> None:
    require_honest(TASK, verdicts(TASK, variants(TASK.name), pick_device(device)))


@pytest.mark.second_tier
@pytest.mark.parametrize("device", DEVICES)
def test_planted_faults_fail(device: str) -> None:
    """In a baseline of which only rows of 64 and 256 experts lie in registers: fewer kernels."""
    source, count = OTHER_NUMBERS.subn("", BASELINE)
    assert count == 6
    faults = planted(source, FAULTS)
    found = verdicts(NARROW, {"as it is": source, **faults}, pick_device(device))
    assert found["as it is"] is None
    require_caught(faults, found)
    # An expert that stands twice is named.
    wrong = found["the chosen expert stays"]
    assert isinstance(wrong, Wrong) and wrong.argument in ("topk_ids", "topk_weights")
    wrong = found["ids one too high"]
    assert isinstance(wrong, Wrong) and wrong.reason == "not_accepted"
    assert wrong.argument == "topk_ids" and len(wrong.index) == 2 and "expert" in wrong.note


def test_served_numbers_of_experts_are_timed() -> None:
    assert {case.dims["experts"] for case, _ in TASK.bench} >= {128, 160, 256}
