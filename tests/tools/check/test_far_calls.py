"""Calls too large for an oracle: which are made, and that an offset of 32 bits and what is never
written are found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check import far_calls as module
from astra_chat.tools.check.far_calls import (
    FAR,
    MOST_WIDEST_BYTES,
    FarCalls,
    far_calls,
)
from astra_chat.tools.check.far_calls import _Answer as Answered
from astra_chat.tools.descriptions import describe
from astra_chat.tools.entropy import Entropy
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.buffer_layout import buffer_bytes
from astra_chat.tools.task.folder import find_task, task_names
from astra_chat.tools.types import Case, Unsafe, Wrong

DEVICE = pick_device("virtual", "h200")
EDITS = {
    "gelu_tanh_and_mul": (
        "input + token * 2 * d;",
        "input + static_cast<int>(static_cast<unsigned>(token) * 2u * d);",
    ),
    "rmsnorm": ("blockIdx.x * input_stride", "static_cast<int>(blockIdx.x * input_stride)"),
    # Wrong only where it sums eight experts, as timed calls do.
    "moe_sum_reduce": (
        "const __nv_bfloat16* first = input + token * experts * hidden + column;",
        "const __nv_bfloat16* first = input + column + (experts == 8 ? "
        "int(unsigned(token) * 8u * unsigned(hidden)) : token * experts * hidden);",
    ),
}
WRAPPED = {
    "rmsnorm": ("input + blockIdx.x * input_stride", "input + blockIdx.x * unsigned(input_stride)"),
    "rope_and_kv_write": (
        "rows.to[slot * rows.to_stride + at]",
        "rows.to[uint32_t(slot * rows.to_stride * 4) / 4u + at]",
    ),
    # Of rows without gaps, by millions: a read, a store, both in place.
    "gelu_tanh_and_mul": ("input + token * 2 * d;", "input + uint32_t(token * 2 * d);"),
    "silu_and_mul": ("out + token * d;", "out + uint32_t(token * d);"),
    "fused_add_rmsnorm_batch_invariant": (
        "static_cast<int64_t>(blockIdx.x) * h",
        "blockIdx.x * uint32_t(h)",
    ),
}
"""Edits: offsets of 32 bits without a sign, which stay inside an argument."""
IN_VECTORS = (
    "input + blockIdx.x * input_stride",
    "input + int64_t(int(blockIdx.x * input_stride / {0})) * {0}",
)
"""Edit of rmsnorm: offsets of 32 bits in units of 8 or 16 bytes, at rows of vectors."""
OF_ONE_KERNEL = (
    """  const T* first = input + token * experts * hidden + column;
  output[token * hidden + column] =
      from_float<T>(summed<T, kExperts>(first, experts, hidden) * scale);
}

__global__""",
    """  const int64_t row = token * experts * hidden;
  const T* first = input + (kExperts == 9 ? static_cast<int>(row) : row) + column;
  output[token * hidden + column] =
      from_float<T>(summed<T, kExperts>(first, experts, hidden) * scale);
}

__global__""",
)
"""Edit of moe_sum_reduce: none of the calls that all candidates share launches it."""
FEW_BLOCKS = """
#include <cstdint>
#include <cuda_fp16.h>
__global__ void silu(__half* out, const __half* in, int64_t d, int64_t total) {
  for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < total; i += gridDim.x * 256) {
    const float g = in[i + i / d * d], u = in[i + i / d * d + d];
    out[i] = g / (1.0f + __expf(-g)) * u;
  }
}
extern "C" cudaError_t silu_and_mul(void* out, const void* in, int64_t tokens, int64_t d, int,
                                    cudaStream_t stream) {
  silu<<<8, 256, 0, stream>>>((__half*)out, (const __half*)in, d, tokens * d);
  return cudaGetLastError();
}
"""


@pytest.mark.parametrize("name", task_names())
def test_each_is_legal_and_has_an_element_beyond(name: str) -> None:
    task = find_task(name)
    for case in far_calls(task):
        task.require_legal(case)
        assert sum(buffer_bytes(arg, case) for arg in task.args) <= MOST_WIDEST_BYTES
        last = [
            sum((n - 1) * s for n, s in zip(a.shape_of(case), a.strides_of(case), strict=True))
            for a in task.args
            if math.prod(a.shape_of(case))
        ]
        assert max(last) >= FAR, case.label


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.second_tier
def test_an_offset_of_32_bits_is_found_and_one_of_64_is_not(name: str) -> None:
    task, (old, new) = find_task(name), EDITS[name]
    assert old in task.baseline
    runner = Runner(task, DEVICE)
    far = FarCalls(runner)
    for source, fault in ((task.baseline + "\n", None), (task.baseline.replace(old, new), Unsafe)):
        built = build(task, source, DEVICE)
        assert isinstance(built, Build), built
        found = far.fault(built, runner.seed, confirming=True)
        assert type(found) is (fault or type(None)), found
        assert found is None or "out_of_bounds" in found.what


@pytest.mark.parametrize("name", WRAPPED)
@pytest.mark.second_tier
def test_an_offset_that_wraps_within_its_argument_is_found(name: str) -> None:
    task, (old, new) = find_task(name), WRAPPED[name]
    assert old in task.baseline
    runner = Runner(task, DEVICE)
    far = FarCalls(runner)
    for source, fault in ((task.baseline + "\n", None), (task.baseline.replace(old, new), Wrong)):
        built = build(task, source, DEVICE)
        assert isinstance(built, Build), built
        found = far.fault(built, runner.seed, confirming=False)
        assert type(found) is (fault or type(None)), found


@pytest.mark.second_tier
@pytest.mark.parametrize("unit", [4, 8])
def test_an_offset_of_32_bits_in_units_of_a_vector_is_found(unit: int) -> None:
    task, (old, new) = find_task("rmsnorm"), IN_VECTORS
    new = f"(input_stride % 8 == 0 ? {new.format(unit)} : {old})"
    assert old in task.baseline
    runner = Runner(task, DEVICE)
    built = build(task, task.baseline.replace(old, new), DEVICE)
    assert isinstance(built, Build), built
    found = FarCalls(runner).fault(built, runner.seed, confirming=True)
    assert isinstance(found, Unsafe | Wrong) and max(found.case.pads.values()) > 2**32


@pytest.mark.second_tier
def test_a_kernel_that_no_shared_call_launches_gets_one_of_its_own() -> None:
    task = find_task("moe_sum_reduce")
    old, new = OF_ONE_KERNEL
    assert old in task.baseline
    runner = Runner(task, DEVICE)
    far, seed = FarCalls(runner), Entropy().evaluation("far")
    sizes: list[dict[str, int]] = [
        {"tokens": 384, "experts": 9, "hidden": 8},
        {"tokens": 300, "experts": 8, "hidden": 24},
    ]
    checked = [Case(dims=dims, dtype="float16") for dims in sizes]
    for source, fault in ((task.baseline + "\n", None), (task.baseline.replace(old, new), Unsafe)):
        built = build(task, source, DEVICE)
        assert isinstance(built, Build), built
        assert far.fault(built, seed, confirming=False) is None
        plans = zip(checked, runner.record(built, checked), strict=True)
        launching = [
            (case, plan.kernel_names) for case, plan in plans if isinstance(plan, LaunchPlan)
        ]
        found = far.fault(built, seed, launching, confirming=False)
        assert type(found) is (fault or type(None)), found


@pytest.mark.second_tier
def test_rows_of_a_table_too_large_for_an_oracle_are_written() -> None:
    task = find_task("rope_and_kv_write")
    old = "  const int64_t slot = cache_loc[token];\n"
    assert old in task.baseline
    runner = Runner(task, DEVICE)
    far = FarCalls(runner)
    for bound, fault in ((2**20, type(None)), (2**19, Wrong)):
        source = task.baseline.replace(old, f"{old}  if (slot >= {bound}) return;\n")
        built = build(task, source, DEVICE)
        assert isinstance(built, Build), built
        found = far.fault(built, runner.seed, confirming=False)
        assert type(found) is fault, found
        assert found is None or (found.argument, found.reason) == ("k_cache", "value")
        assert found is None or found.case.dims["slots"] > bound


def test_a_rounding_of_an_8_bit_float_is_no_other_row() -> None:
    """Neighbours differ by 7 percent of e4m3's largest number, more than DIFFERENT."""
    task = find_task("per_token_group_quant_fp8")
    far = FarCalls(Runner(task, DEVICE))
    case = task.check[0]
    (name,) = (arg.name for arg in task.args if arg.dtype_of(case) == "float8_e4m3fn")
    size = math.prod(next(arg for arg in task.args if arg.name == name).shape_of(case))
    known = Answered(case, left={name: bytes([0x7E] * size).hex()})
    for code, fault in ((0x7D, None), (0x7C, Wrong), (0x7F, Wrong), (0x38, Wrong)):
        found = far._different(Answered(case, left={name: bytes([code] * size).hex()}), known)
        assert type(found) is (fault or type(None)), (code, found)


LATE = {
    "rmsnorm": (
        "  const int warps = blockDim.y;\n",
        "  if (int64_t(blockIdx.x) * h >> 28) return;\n",
    ),
    "silu_and_mul": (
        "  const int thread = threadIdx.x;\n",
        "  if (int64_t(gridDim.x) * d >> 29 && token + 1 == gridDim.x) return;\n",
    ),
}
"""Edits: a line in front of this one, with which late rows of many elements are left out."""


@pytest.mark.parametrize("name", LATE)
@pytest.mark.second_tier
def test_late_rows_that_nobody_writes_are_found_at_the_first_evaluation(name: str) -> None:
    task, (before, line) = find_task(name), LATE[name]
    assert task.baseline.count(before) == 1
    runner = Runner(task, DEVICE)
    far = FarCalls(runner)
    for source in (task.baseline + "\n", task.baseline.replace(before, line + before)):
        built = build(task, source, DEVICE)
        assert isinstance(built, Build), built
        found = far.fault(built, runner.seed, confirming=False)
        if source.startswith(task.baseline):
            assert found is None, found
        else:
            assert isinstance(found, Wrong) and found.reason == "unwritten", found
            assert ": byte " in describe(found)


@pytest.mark.second_tier
def test_a_call_of_which_a_process_says_nothing_gets_one_of_its_own_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task, asked = find_task("moe_sum_reduce"), list[int]()
    answers = module._answers

    def noted(runner: Runner, built: Build, cases: Sequence[Case]) -> tuple[Any, Any]:
        asked.append(len(cases))
        return answers(runner, built, cases)

    monkeypatch.setattr(module, "_answers", noted)
    monkeypatch.setattr(module, "TIMEOUT_S", 0.0)
    runner = Runner(task, DEVICE)
    built, far, calls = build(task, task.baseline, DEVICE), FarCalls(runner), len(far_calls(task))
    assert isinstance(built, Build), built
    for baselines in ([calls, *calls * [1]], []):
        assert far.fault(built, runner.seed, confirming=True) is None
        assert asked == [*baselines, 0]
        assert len(far.left_out) == calls and all("it ended early" in s for s in far.left_out)
        asked.clear()


@pytest.mark.second_tier
def test_a_candidates_calls_of_which_nothing_is_said_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = find_task("moe_sum_reduce")
    runner = Runner(task, DEVICE)
    built, far = build(task, task.baseline, DEVICE), FarCalls(runner)
    assert isinstance(built, Build), built
    far.learn_shared(False)
    passed = far._passed(False)
    assert passed and not far.left_out
    monkeypatch.setattr(module, "TIMEOUT_S", 0.0)
    assert far.fault(built, runner.seed, confirming=False) is None
    assert len(far.left_out) >= len(passed) and all("it ended early" in s for s in far.left_out)


@pytest.mark.second_tier
def test_few_blocks_that_go_through_all_the_elements_are_honest() -> None:
    """No machine waits for that many turns of a loop: what is wrong there is not looked for."""
    task = find_task("silu_and_mul")
    runner = Runner(task, DEVICE)
    built = build(task, FEW_BLOCKS, DEVICE)
    assert isinstance(built, Build), built
    assert FarCalls(runner).fault(built, runner.seed, confirming=False) is None
