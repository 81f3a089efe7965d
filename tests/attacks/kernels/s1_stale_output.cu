// S1: leaves the output as it was.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum_rows(float*, const float*, int64_t) {}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
