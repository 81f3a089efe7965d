// X113: starts its sum from a register that nothing sets: right where the one before it left a zero there.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum(float* out, const float* x, int64_t n) {
  float mine;
  asm volatile("" : "=f"(mine));
  for (int64_t i = threadIdx.x; i < n; i += 32) mine += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, o);
  if (threadIdx.x == 0) out[blockIdx.x] = mine;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
