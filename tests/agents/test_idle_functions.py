"""What of a source no timed case runs: told for sure, or not at all."""

from __future__ import annotations

import pytest

from astra_chat.agents.idle_functions import Idle, idle_functions
from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import find_task

SOURCE = """#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define TWICE(x) doubled(x)

namespace {
template <typename T, int kSize = 4>
struct Pack { T item[kSize]; };

template <typename T>
__device__ T zero();
template <>
__device__ float zero<float>() { return 0.0f; }

__device__ float of_both(float x) { return x; }
__device__ float doubled(float x) { return 2 * x; }

__device__ float of_slow(float x) {
#pragma unroll
  for (int i = 0; i < 4; ++i) x += zero<float>();
  return x;
}
template <typename T = float>
__global__ void __launch_bounds__(256) slow(T* out) {
  *out = of_slow(of_both(*out)) + TWICE(1);
}

__global__ void fast(float* out) {
  *out = of_both(*out);
}
}  // namespace

extern "C" int launch(float* out, int n) {
  if (n) fast<<<1, 1>>>(out);
  else slow<float><<<1, 1>>>(out);
  return 0;
}
"""


def text_of(source: str, idle: Idle) -> str:
    return "\n".join(source.split("\n")[idle.first - 1 : idle.last])


def test_what_only_an_idle_kernel_calls_is_idle_too() -> None:
    headers, zero, slow = idle_functions(SOURCE, ["fast"])
    assert headers == Idle(1, 4) and headers.text == "// lines 1 to 4: headers"
    assert zero.names == ("zero",) and text_of(SOURCE, zero).startswith("template <typename T>")
    assert slow.names == ("of_slow", "slow"), "what both or a macro may call stays"
    assert text_of(SOURCE, slow).startswith("__device__ float of_slow")
    assert text_of(SOURCE, slow).endswith("TWICE(1);\n}")
    assert slow.text.endswith(": of_slow, slow, not run in any timed case")
    assert idle_functions(SOURCE, ["fast", "slow"]) == [Idle(1, 4)]


@pytest.mark.parametrize(
    ("source", "launched"),
    [
        (SOURCE, []),
        (SOURCE, ["fast", "made_by_a_macro"]),
        (SOURCE.replace("= 0;", "= '0;"), ["fast"]),
    ],
)
def test_nothing_is_left_out_where_that_is_not_sure(source: str, launched: list[str]) -> None:
    assert idle_functions(source, launched) == []


def test_a_function_that_shares_a_line_stays() -> None:
    shared = SOURCE.replace("}\n\n__global__ void fast", "} __global__ void fast")
    assert all("slow" not in idle.names for idle in idle_functions(shared, ["fast"]))


@pytest.mark.parametrize("name", ["fitted", "ahead", "streaming"])
def test_real_kernels_keep_all_that_runs(name: str) -> None:
    source = load_script(find_task("fused_add_rmsnorm")).sources[f"{name}.cu"]
    _, idle = idle_functions(source, ["row_kernel"])
    assert idle.names == ("to_float", "assign", "any_row_kernel")
    assert "row_kernel(const Rows" not in text_of(source, idle)
