// S15: computes in half precision under a float32 contract.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __half sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum = __hadd(sum, __float2half(x[blockIdx.x * n + i]));
  float total = __half2float(sum);
  for (int o = 16; o > 0; o /= 2) total += __shfl_xor_sync(0xffffffffu, total, o);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
