"""A task whose baseline cannot do all that its contract allows: it stages a row in shared memory
and asks for no more than there usually is."""

from __future__ import annotations

from pathlib import Path

from astra_chat.tools.task.folder import Task, load_task

TOML = """
schema = 2
name = "staged"
summary = "out = 2 * x"
entry = "staged"
dtypes = ["float32"]
flops = "rows*d"
flags = ["-O3", "-std=c++17"]
args = [
    { name = "out", dtype = "T", shape = ["rows", "d"], access = "write" },
    { name = "x", dtype = "T", shape = ["rows", "d"], access = "read" },
]
check = [{ rows = 2, d = 64, dtype = "float32" }]
bench = [{ rows = 2, d = 64, dtype = "float32", weight = 1 }]
demo = [{ rows = 2, d = 64, dtype = "float32", weight = 1 }]
[dims.rows]
min = 1
max = 4
[dims.d]
min = 1
max = 16384
[tolerance]
float32 = { rtol = 1e-5, atol = 1e-5 }
[provenance]
baseline = "written for this test"
"""
REFERENCE = """
def make_inputs(case, generator):
    return {"x": case.draw(generator, (case.dims["rows"], case.dims["d"]))}


def reference(inputs):
    return {"out": inputs["x"].double() * 2}
"""
STAGED = """#include <cstdint>
#include <cuda_runtime.h>

__global__ void staged_kernel(float* out, const float* x, int64_t d) {
  extern __shared__ float row[];
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) row[i] = x[blockIdx.x * d + i];
  __syncthreads();
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) out[blockIdx.x * d + i] = 2.0f * row[i];
}

extern "C" cudaError_t staged(void* out, const void* x, int64_t rows, int64_t d, int dtype,
                              cudaStream_t stream) {
  if (dtype != 0) return cudaErrorInvalidValue;
  staged_kernel<<<(int)rows, 64, d * sizeof(float), stream>>>((float*)out, (const float*)x, d);
  return cudaGetLastError();
}
"""
"""Launches rows of up to 12,288 numbers."""
ONE_WIDTH = STAGED.replace("2.0f * row[i]", "d == 64 ? 2.0f * row[i] : 0.0f")
"""Wrong for every width but that of the task's own case."""
CRASHING = STAGED.replace("i < d; i += blockDim.x) row", "i < (d > 100 ? d + 4 : d); i += 64) row")
"""Reads beyond its input where rows are longer than 100."""
LAUNCHES_LITTLE = STAGED.replace("if (dtype != 0)", "if (dtype != 0 || d != 64)")
"""Returns an error for rows of another length than that of the task's own case."""


def failing_task(folder: Path, baseline: str, toml: str = TOML) -> Task:
    (folder / "task.toml").write_text(toml)
    (folder / "reference.py").write_text(REFERENCE)
    (folder / "baseline.cu").write_text(baseline)
    return load_task(folder)
