// Shared by the validation kernels. Every launcher: (out, in, a, b, stream) -> cudaError_t; what a and
// b mean is said in ../set.toml. `in` holds words whose upper and lower half are fp16 of 0 to 2.
#pragma once
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define LAUNCHER(name) extern "C" int name(void* out, const void* in, int64_t a, int64_t b, cudaStream_t stream)
#define LAUNCH(kernel, blocks, threads, ...)                                            \
  do {                                                                                  \
    kernel<<<blocks, threads, 0, stream>>>(__VA_ARGS__);                                \
    return cudaGetLastError();                                                          \
  } while (0)

namespace {

inline unsigned cover(int64_t items, int64_t each) { return static_cast<unsigned>((items + each - 1) / each); }

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) x += __shfl_down_sync(~0u, x, lanes);
  return x;
}

// Of all threads, in thread 0. Shared memory is the caller's: one float a warp.
__device__ __forceinline__ float sum_of_block(float x, float* partial) {
  x = warp_sum(x);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) x = warp_sum(threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f);
  return x;
}

}  // namespace
