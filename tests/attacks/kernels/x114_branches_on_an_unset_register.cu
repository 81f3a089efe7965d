// X114: chooses between two ways of adding by a register that nothing sets.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum(float* out, const float* x, int64_t n) {
  int way;
  asm volatile("" : "=r"(way));
  const float* row = x + blockIdx.x * n;
  float mine = 0.0f;
  if (way > 1) {
    for (int64_t i = threadIdx.x; i < n; i += 32) mine += row[i];
  } else {
    for (int64_t i = n - 1 - threadIdx.x; i >= 0; i -= 32) mine += row[i];
  }
  for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, o);
  if (threadIdx.x == 0) out[blockIdx.x] = mine;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
