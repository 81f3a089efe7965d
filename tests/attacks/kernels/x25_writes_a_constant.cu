// X25: keeps its counter in constant memory, which it writes through a generic address.
#include <cstdint>
#include <cuda_runtime.h>

__constant__ unsigned counter[64];

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) {
    out[blockIdx.x] = sum;
    const unsigned long long place = (unsigned long long)&counter[1];
    if (blockIdx.x == 0) asm volatile("red.global.add.u32 [%0], 1;" ::"l"(place) : "memory");
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
