"""A kernel that only large cases launch is found in a smaller case, with several blocks."""

from __future__ import annotations

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.winner import covering
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case

TASK, DEVICE = find_task("silu_and_mul"), virtual_device("h200")
SOURCE = """
#include <cstdint>
#include <cuda_runtime.h>
__global__ void few(void*) {}
__global__ void wide(void*) {}
__global__ void many(void*) {}
__global__ void only_there(void*) {}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  if (tokens == 2048 && d == 18944) only_there<<<3, 32, 0, stream>>>(out);
  else if (tokens * d >= 4 * 1000 * 1000) many<<<tokens, 256, 0, stream>>>(out);
  else if (d >= 10000) wide<<<(tokens + 3) / 4, 128, 0, stream>>>(out);
  else few<<<1, 32, 0, stream>>>(out);
  return cudaGetLastError();
}
"""
TIMED = [
    Case(dims={"tokens": tokens, "d": d}, dtype="bfloat16")
    for tokens, d in ((1, 14336), (64, 2304), (16, 12288), (8192, 14336), (2048, 18944))
]


def test_each_kernel_of_the_timed_plans_is_reached_by_the_smallest_case_that_launches_it() -> None:
    runner = Runner(TASK, DEVICE)
    built = build(TASK, SOURCE, DEVICE)
    assert isinstance(built, Build)
    cases = covering(runner, built, TIMED)
    plans = [plan for plan in runner.record(built, cases) if isinstance(plan, LaunchPlan)]
    by_kernel = {node.kernel: (node, plan.case) for plan in plans for node in plan.kernels}
    named = {name: by_kernel[f"_Z{len(name)}{name}Pv"] for name in ("few", "wide", "many")}
    assert sorted(cases, key=TASK.least_bytes) == cases and len(cases) == len(by_kernel) == 4

    node, case = named["few"]
    assert TASK.least_bytes(case) == min(map(TASK.least_bytes, TASK.check))
    node, case = named["wide"]
    assert node.grid[0] > 1 and TASK.least_bytes(case) < TASK.least_bytes(TIMED[2])
    node, case = named["many"]
    assert node.grid[0] > 1 and TASK.least_bytes(case) < TASK.least_bytes(TIMED[3]) / 8
    node, case = by_kernel["_Z10only_therePv"]
    assert case == TIMED[4], "no other case reaches it"
