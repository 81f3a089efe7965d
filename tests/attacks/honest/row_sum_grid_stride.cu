// A fixed grid that walks over the rows.
#include <cstdint>
#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}

__global__ void __launch_bounds__(32, 16) sum(float* out, const float* x, int64_t rows, int64_t n) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float mine = 0.0f;
    for (int64_t i = threadIdx.x; i < n; i += 32) mine += __ldcs(&x[row * n + i]);
    mine = warp_sum(mine);
    if (threadIdx.x == 0) __stcs(&out[row], mine);
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows < 528 ? rows : 528), 32, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaGetLastError();
}
