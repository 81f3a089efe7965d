// Shared by the kernels of this set. A launcher gets (out, in, a, b, stream); ../set.toml says what a and b are, how
// many bytes `in` and `out` have, and whether `in` starts with ids. The rest of `in` is words whose halves are 0 to 2 as
// fp16; as fp32 and as bf16 they are 0 to 2 as well.
#pragma once
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#define LAUNCHER(name) extern "C" int name(void* out, const void* in, int64_t a, int64_t b, cudaStream_t stream)

namespace {

using bf16 = __nv_bfloat16;
using bf162 = __nv_bfloat162;
constexpr unsigned FULL = 0xffffffffu;

// Eight bf16 as they are loaded and stored.
union Eight {
  uint4 raw;
  bf162 pair[4];
};

inline unsigned div_up(int64_t n, int64_t d) { return static_cast<unsigned>((n + d - 1) / d); }

__device__ __forceinline__ float sum_lanes(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) x += __shfl_xor_sync(FULL, x, mask);
  return x;
}

__device__ __forceinline__ float max_lanes(float x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL, x, mask));
  return x;
}

__global__ void zero_words(unsigned* words, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) words[i] = 0;
}

}  // namespace
