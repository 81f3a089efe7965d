"""Two calls at once on a real GPU: what they share shows, what is each one's own does not."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import check
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.types import Case, Correct, Wrong
from tests.tools.runners.test_virtual import HEAD, TASK

SHARED = (
    HEAD
    + """
__device__ unsigned long long owner;
__global__ void sums(float* out, const float* x, int64_t n) {
  if (threadIdx.x) return;
  KEEP(atomicExch(&owner, (unsigned long long)out);)
  for (int turn = 0; turn < 400; ++turn) __nanosleep(1000);
  float sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[blockIdx.x * n + i];
  out[blockIdx.x] = sum;
  KEEP(if (atomicExch(&owner, 0ull) != (unsigned long long)out) out[blockIdx.x] = -sum - 1;)
}
extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sums<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
"""
)
"""Each call names itself in a module variable for 0.4 ms at least, and sets it back."""
CASES = [
    Case(dims={"rows": 1, "n": 40}, dtype="float32"),
    Case(dims={"rows": 1, "n": 7}, dtype="float32"),
]


@pytest.mark.gpu
@pytest.mark.parametrize(("keep", "outcome"), [("__VA_ARGS__", Wrong), ("", Correct)])
def test_a_variable_that_is_set_back_shows_in_overlapped_calls(keep: str, outcome: type) -> None:
    device = pick_device("cuda")
    built = build(TASK, f"#define KEEP(...) {keep}\n{SHARED}", device)
    assert isinstance(built, Build)
    oracle = Oracle(TASK)
    try:
        first, second = oracle.oracle_cases(CASES, Stop())
        runner = Runner(TASK, device)
        alone = check(runner, built, [Call(first), Call(second)])
        assert isinstance(alone, Correct)
        pair = [Call(first, "overlapped"), Call(second, "overlapped")]
        found = check(runner, built, [*pair, Call(first)])
        assert isinstance(found, outcome), found
    finally:
        oracle.close()
