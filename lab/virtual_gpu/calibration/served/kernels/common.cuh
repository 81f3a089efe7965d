// Shared by the kernels of this set. A launcher gets (out, in, a, b, stream); ../set.toml says what a and b are, how
// many bytes `in` and `out` have, and whether `in` starts with ids. The rest of `in` is words whose halves are 0 to 2 as
// fp16; as fp32 they are 0 to 2 as well.
#pragma once
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define LAUNCHER(name) extern "C" int name(void* out, const void* in, int64_t a, int64_t b, cudaStream_t stream)

namespace {

constexpr unsigned ALL = 0xffffffffu;

// Eight halves, loaded and stored at once.
struct alignas(16) Pack {
  __half2 h[4];
};

inline unsigned ceil_div(int64_t n, int64_t d) { return static_cast<unsigned>((n + d - 1) / d); }

template <int WIDTH = 32>
__device__ __forceinline__ float lanes_sum(float x) {
#pragma unroll
  for (int step = WIDTH / 2; step; step /= 2) x += __shfl_xor_sync(ALL, x, step);
  return x;
}

template <int WIDTH = 32>
__device__ __forceinline__ float lanes_max(float x) {
#pragma unroll
  for (int step = WIDTH / 2; step; step /= 2) x = fmaxf(x, __shfl_xor_sync(ALL, x, step));
  return x;
}

// For every thread of the block. `room`: a float a warp; it may be used again behind another barrier.
__device__ __forceinline__ float block_sum(float x, float* room) {
  x = lanes_sum(x);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < blockDim.x / 32 ? room[threadIdx.x % 32] : 0.0f;
  return lanes_sum(x);
}

__device__ __forceinline__ float block_max(float x, float* room) {
  x = lanes_max(x);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < blockDim.x / 32 ? room[threadIdx.x % 32] : 0.0f;
  return lanes_max(x);
}

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

}  // namespace
