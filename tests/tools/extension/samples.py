"""Torch extensions for a small module, Linear + GELU + softmax of rows: honest ones and others.

HOST has no CUDA, so that the processes can be tested where there is no GPU.
"""

from __future__ import annotations

from pathlib import Path

MODULE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, wide, out):
        super().__init__()
        self.linear = nn.Linear(wide, out)

    def forward(self, x):
        return torch.softmax(nn.functional.gelu(self.linear(x)), dim=-1)


def get_inputs():
    return [torch.randn({rows}, {wide})]


def get_init_inputs():
    return [{wide}, {out}]
"""
CONTRACT = """
schema = 2
name = "gelu_softmax"
summary = "Softmax of the GELU of a linear layer."
entry = "gelu_softmax"
reference = "problem:Model"
flops = "2*rows*{wide}*{out}"
flags = []
args = [
{{ name = "x", dtype = "float32", shape = ["rows", "{wide}"], access = "read" }},
{{ name = "linear_weight", dtype = "float32", shape = ["{out}", "{wide}"], access = "read", \
range = [-0.5, 0.5], weight = true }},
{{ name = "linear_bias", dtype = "float32", shape = ["{out}"], access = "read", \
range = [-0.5, 0.5], weight = true }},
{{ name = "out", dtype = "float32", shape = ["rows", "{out}"], access = "write" }},
]
check = [{{ rows = {rows} }}, {{ rows = 1 }}, {{ rows = 3, values = "normal" }}]
bench = [{{ rows = {rows}, weight = 1 }}]
demo = [{{ rows = {rows} }}]
[dims.rows]
min = 1
max = {rows}
[tolerance]
float32 = {{ rtol = 1e-4, atol = 1e-5 }}
[provenance]
baseline = "none"
"""
HEAD = "#include <torch/extension.h>\n"
FORWARD = "torch::Tensor forward(torch::Tensor x, torch::Tensor linear_weight,"
FORWARD += " torch::Tensor linear_bias) {\n"
HOST = (
    HEAD
    + """#include <cmath>
void rows_of(const float* x, float* y, long rows, long n) {
  for (long r = 0; r < rows; ++r, x += n, y += n) {
    double sum = 0;
    for (long c = 0; c < n; ++c) {
      y[c] = 0.5f * x[c] * (1.0f + std::erf(x[c] * 0.70710678f));
      sum += std::exp(double(y[c]));
    }
    for (long c = 0; c < n; ++c) y[c] = float(std::exp(double(y[c])) / sum);
  }
}
"""
    + FORWARD
    + """  auto h = at::addmm(linear_bias, x, linear_weight.t());
  auto out = torch::empty_like(h);
  rows_of(h.const_data_ptr<float>(), out.mutable_data_ptr<float>(), h.size(0), h.size(1));
  return out;
}
"""
)
CHEATS = {
    # New values at an address seen before get the old result.
    "cached": HOST.replace(FORWARD, "static torch::Tensor kept; static void* at_;\n" + FORWARD)
    .replace("  auto h", "  if (kept.defined() && at_ == x.data_ptr()) return kept;\n  auto h")
    .replace("  return out;", "  kept = out; at_ = x.data_ptr();\n  return out;"),
    "in_place": HOST.replace("return out;", "x.zero_();\n  return out;"),
    "other_shape": HOST.replace("return out;", "return out.view({-1});"),
    "half_eye": HOST.replace("0.70710678f", "0.7f"),
    "raises": HOST.replace("  auto h", '  TORCH_CHECK(x.size(0) != 3, "not 3");\n  auto h'),
}
"""The guard refuses some of these; the processes find all of them, too."""
FUSED = (
    HEAD
    + """#include <ATen/cuda/CUDAContext.h>
constexpr int kThreads = 256;
__device__ float sum_of(float value, float* shared) {
  for (int lane = 16; lane; lane /= 2) value += __shfl_xor_sync(~0u, value, lane);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += shared[warp];
  __syncthreads();
  return sum;
}
__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
// The bias is added by the product; GELU is at least -0.17 and of rows that are finite the largest
// value is subtracted.
__global__ void __launch_bounds__(kThreads) gelu_softmax(const float* x, float* out, int n) {
  __shared__ float shared[kThreads / 32];
  const float* row = x + int64_t(blockIdx.x) * n;
  float most = -0.2f;
  for (int c = threadIdx.x; c < n; c += kThreads) most = fmaxf(most, gelu(row[c]));
  for (int lane = 16; lane; lane /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lane));
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = most;
  __syncthreads();
  for (int warp = 0; warp < kThreads / 32; ++warp) most = fmaxf(most, shared[warp]);
  __syncthreads();
  float part = 0.0f;
  for (int c = threadIdx.x; c < n; c += kThreads) part += expf(gelu(row[c]) - most);
  const float sum = sum_of(part, shared);
  for (int c = threadIdx.x; c < n; c += kThreads)
    out[int64_t(blockIdx.x) * n + c] = expf(gelu(row[c]) - most) / sum;
}
"""
    + FORWARD
    + """  auto h = at::addmm(linear_bias, x, linear_weight.t());
  auto out = torch::empty_like(h);
  auto stream = at::cuda::getCurrentCUDAStream();
  gelu_softmax<<<h.size(0), kThreads, 0, stream>>>(
      h.data_ptr<float>(), out.data_ptr<float>(), int(h.size(1)));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""
)
"""A kernel of its own behind the library's product."""


def module_task(folder: Path, *, rows: int = 6, wide: int = 16, out: int = 24) -> Path:
    """The task of the module, as `astra-chat new` writes it, without tracing it; its baseline is
    empty. Returns its folder."""
    sizes = {"rows": rows, "wide": wide, "out": out}
    module = MODULE
    for name, size in sizes.items():
        module = module.replace(f"{{{name}}}", str(size))
    (folder / "problem.py").write_text(module)
    (folder / "task.toml").write_text(CONTRACT.format(**sizes))
    (folder / "baseline.cu").write_text("")
    return folder
