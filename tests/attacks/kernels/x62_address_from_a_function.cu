// X62: a function that is not inlined hands out the address of a hidden counter.
#include <cstdint>
#include <cuda_runtime.h>

__device__ unsigned counter;

__device__ __noinline__ unsigned* where(int64_t n) { return n < 0 ? nullptr : &counter; }

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) {
    out[blockIdx.x] = sum;
    unsigned* calls = where(n);
    *calls = *calls + 1;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
