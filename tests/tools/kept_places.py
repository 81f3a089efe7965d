"""A task with more than one legal result: the places of an input's positive numbers, in any order.
What lies behind them is not written."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.task.folder import Task, load_task

TOML = """
schema = 2
name = "keep"
summary = "places[:count] are those of x's positive numbers, in any order"
entry = "keep"
dtypes = ["float32"]
flops = "n"
flags = ["-O3", "-std=c++17"]
args = [
    { name = "places", dtype = "int32", shape = ["n"], access = "write" },
    { name = "count", dtype = "int32", shape = ["1"], access = "write" },
    { name = "x", dtype = "T", shape = ["n"], access = "read" },
]
check = [{ n = 40, dtype = "float32" }, { n = 300, dtype = "float32" }]
bench = [{ n = 300, dtype = "float32", weight = 1 }]
demo = [{ n = 300, dtype = "float32", weight = 1 }]
[dims.n]
min = 1
max = 1024
[tolerance]
float32 = { rtol = 0, atol = 0 }
[provenance]
baseline = "written for this test"
"""
KERNEL = """#include <cstdint>
__global__ void clear(int* count) { *count = 0; }
__global__ void keep_kernel(int* places, int* count, const float* x, int64_t n) {
  const int64_t i = blockIdx.x * 32 + threadIdx.x;
  if (i < n && x[i] > 0) places[atomicAdd(count, 1)] = static_cast<int>(i);
}
extern "C" cudaError_t keep(void* places, void* count, const void* x, int64_t n, int dtype,
                            cudaStream_t stream) {
  clear<<<1, 1, 0, stream>>>(static_cast<int*>(count));
  keep_kernel<<<static_cast<unsigned>((n + 31) / 32), 32, 0, stream>>>(
      static_cast<int*>(places), static_cast<int*>(count), static_cast<const float*>(x), n);
  return cudaGetLastError();
}
"""
REFERENCE = """
import torch


def make_inputs(case, generator):
    return {"x": case.draw(generator, (case.dims["n"],))}


def reference(inputs):
    kept = (inputs["x"] > 0).nonzero().flatten()
    places = torch.zeros(inputs["n"], dtype=torch.int64)
    places[: len(kept)] = kept
    return {"places": places, "count": torch.tensor([len(kept)])}
"""
CANONICAL = """

def canonical(outputs, inputs):
    places, count = outputs["places"].clone(), int(outputs["count"])
    places[:count] = places[:count].sort().values
    places[count:] = 0
    return {**outputs, "places": places}
"""
SORTS = "    places[:count] = places[:count].sort().values\n"


def keep(folder: Path, canonical: str) -> Task:
    """The task in this folder, with these words of reference.py about other legal results."""
    (folder / "task.toml").write_text(TOML)
    (folder / "baseline.cu").write_text(KERNEL)
    (folder / "reference.py").write_text(REFERENCE + canonical)
    return load_task(folder)
