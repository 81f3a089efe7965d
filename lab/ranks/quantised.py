"""The pulling kernel of allreduce_add_rmsnorm as one of allreduce_add_rmsnorm_quant_fp8."""

from __future__ import annotations

from astra_chat.tools.task.shipped import shipped_folder
from astra_vgpu.ground.errors import AstraError

PLAIN = "allreduce_add_rmsnorm"
MOST = """__device__ __forceinline__ float block_most(float value) {
  __shared__ float warps_most[kWarp];
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  if (threadIdx.x % kWarp == 0) warps_most[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = threadIdx.x % kWarp < blockDim.x / kWarp ? warps_most[threadIdx.x % kWarp] : 0.0f;
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

template <int kRanks>
__device__ __forceinline__ void reduce_and_norm"""
CODED = """for (int i = 0; i < kVector; ++i) {
      sums[i] *= scale * weights[i];
      most = fmaxf(most, fabsf(sums[i]));
    }
  }
  const float unit = block_most(most) / 448.0f;
  const float inverse = unit > 0.0f ? 1.0f / unit : 0.0f;
  if (used) {
    __nv_fp8_e4m3 codes[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) codes[i] = __nv_fp8_e4m3(sums[i] * inverse);
    uint2 packed;
    memcpy(&packed, codes, sizeof(packed));
    call.codes[at] = packed;
  }
  if (threadIdx.x == 0) call.scales[blockIdx.x] = unit;
"""
EDITS = (
    ("#include <cuda_bf16.h>\n", "#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"),
    ("  __nv_bfloat16* out;\n", "  uint2* codes;\n  float* scales;\n"),
    ("template <int kRanks>\n__device__ __forceinline__ void reduce_and_norm", MOST),
    ("  if (used) {\n    float weights", "  float most = 0.0f;\n  if (used) {\n    float weights"),
    (
        "for (int i = 0; i < kVector; ++i) sums[i] *= scale * weights[i];\n"
        "    reinterpret_cast<uint4*>(call.out)[at] = rounded(sums);\n  }\n",
        CODED,
    ),
    ("cudaError_t allreduce_add_rmsnorm(", "cudaError_t allreduce_add_rmsnorm_quant_fp8("),
    ("void* out,", "void* output_q, void* output_s,"),
    (
        "static_cast<__nv_bfloat16*>(out),",
        "static_cast<uint2*>(output_q), static_cast<float*>(output_s),",
    ),
)


def quantised() -> str:
    """Returns the kernel's text. Raises AstraError where an edit does not fit it any more."""
    text = (shipped_folder(PLAIN) / "script" / "pull.cu").read_text()
    for old, new in EDITS:
        if text.count(old) != 1:
            raise AstraError(f"pull.cu has no single '{old}'")
        text = text.replace(old, new)
    return text
