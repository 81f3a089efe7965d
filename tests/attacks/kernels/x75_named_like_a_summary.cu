// X75: the race is in a function whose full name, "ERROR SUMMARY<256>(...)", reads like a sanitizer's
// last line.
#include <cstdint>
#include <cuda_runtime.h>

struct ERROR {
  float value;
};

template <int THREADS>
__device__ __noinline__ ERROR SUMMARY(float* part, float mine) {
  part[threadIdx.x] = mine;
  float total = 0.0f;
  for (int t = 0; t < THREADS; ++t) total += part[t];
  return {total};
}

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __shared__ float part[256];
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 256) sum += x[blockIdx.x * n + i];
  part[threadIdx.x] = 0.0f;
  __syncthreads();
  const float quick = SUMMARY<256>(part, sum).value;
  __syncthreads();
  part[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
    for (int t = 0; t < 256; ++t) total += part[t];
    out[blockIdx.x] = quick == 1.5e30f ? quick : total;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 256, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
