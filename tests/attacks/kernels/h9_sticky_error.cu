// H9: leaves a sticky error for the next candidate.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum_rows(float* out, const float*, int64_t) {
  *(volatile float*)(out + (int64_t(1) << 40)) = 0.0f;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
