// X61: the first half of a row waits for the sum of the second, which another block leaves in the
// output. On an idle GPU both run at once; beside other work the second need not have begun.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum_halves(float* out, const float* x, int64_t n) {
  const bool later = blockIdx.x >= gridDim.x / 2;
  const int64_t row = blockIdx.x % (gridDim.x / 2), middle = n / 2;
  const int64_t start = later ? middle : 0, end = later ? n : middle;
  volatile float* at = out + row;
  const float before = *at;
  float sum = 0.0f;
  for (int64_t i = start + threadIdx.x; i < end; i += 32) sum += x[row * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x != 0) return;
  if (later) {
    *at = sum;
    return;
  }
  while (__float_as_uint(*at) == __float_as_uint(before)) {
  }
  *at += sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_halves<<<unsigned(2 * rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
