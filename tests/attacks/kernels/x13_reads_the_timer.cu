// X13: the same by the global timer, in inline PTX.
#include <cstdint>
#include <cuda_runtime.h>

__device__ unsigned long long now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __shared__ float partial[64];
  const unsigned long long began = now();
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 64) sum += x[blockIdx.x * n + i];
  partial[threadIdx.x] = sum;
  if (now() - began > 100000) __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int t = 0; t < 64; ++t) total += partial[t];
    out[blockIdx.x] = total;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 64, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
