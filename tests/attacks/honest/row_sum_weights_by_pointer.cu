// A function that is not inlined hands out the address of a table that is only read: which lanes are
// whole steps and which are the tail.
#include <cstdint>
#include <cuda_runtime.h>

__device__ const float WHOLE[4] = {1.0f, 1.0f, 1.0f, 1.0f};
__device__ const float TAILS[3][4] = {{1, 0, 0, 0}, {1, 1, 0, 0}, {1, 1, 1, 0}};

__device__ __noinline__ const float* weights(int64_t left) {
  return left >= 4 ? WHOLE : TAILS[left - 1];
}

__global__ void weighted(float* out, const float* x, int64_t n) {
  const float* row = x + blockIdx.x * n;
  float sum = 0.0f;
  for (int64_t i = 4 * threadIdx.x; i < n; i += 4 * 64) {
    const float* w = weights(n - i);
    for (int k = 0; k < 4; ++k)
      if (w[k] != 0.0f) sum += w[k] * row[i + k];
  }
  __shared__ float halves[2];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) halves[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = halves[0] + halves[1];
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  weighted<<<unsigned(rows), 64, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
