// Several blocks a row, added by atomics to a cleared result.
#include <cstdint>
#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}

__global__ void sum(float* out, const float* x, int64_t n) {
  const int64_t begin = blockIdx.y * 1024, end = min(n, begin + 1024);
  float mine = 0.0f;
  for (int64_t i = begin + threadIdx.x; i < end; i += 32) mine += x[blockIdx.x * n + i];
  mine = warp_sum(mine);
  if (threadIdx.x == 0) atomicAdd(&out[blockIdx.x], mine);
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  cudaMemsetAsync(out, 0, size_t(rows) * sizeof(float), stream);
  const dim3 grid(unsigned(rows), unsigned((n + 1023) / 1024));
  sum<<<grid, 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
