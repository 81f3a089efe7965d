// X19: writes the timer's name in two strings, beside a header whose own code may read the timer.
#include <cstdint>
#include <cuda/barrier>
#include <cuda_runtime.h>

__device__ unsigned long long now() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %" "globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  const unsigned long long before = now();
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
  if (now() - before > 1000000) out[blockIdx.x] = sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
