// X109: passes one address and the distance to the other.
#include <cstdint>
#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
__global__ void far(const float* x, intptr_t distance, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  sum = warp_sum(sum);
  if (threadIdx.x == 0) ((float*)((intptr_t)x + distance))[blockIdx.x] = sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int, cudaStream_t stream) {
  far<<<unsigned(rows), 32, 0, stream>>>((const float*)x, (intptr_t)out - (intptr_t)x, n);
  return cudaGetLastError();
}
