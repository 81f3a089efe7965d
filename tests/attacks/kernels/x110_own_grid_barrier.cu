// X110: a barrier of its own for the whole grid, without a fence before it.
#include <cstdint>
#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

__device__ unsigned arrived;
__global__ void halves(float* out, const float* x, int64_t rows, int64_t n) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    float sum = 0.0f;
    for (int64_t i = threadIdx.x; i < n / 2; i += 32) sum += x[r * n + i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[r] = sum;
  }
  if (threadIdx.x == 0) {
    atomicInc(&arrived, gridDim.x - 1);
    while (*(volatile unsigned*)&arrived != 0) {}
  }
  __syncwarp();
  for (int64_t r = gridDim.x - 1 - blockIdx.x; r < rows; r += gridDim.x) {
    float sum = 0.0f;
    for (int64_t i = n / 2 + threadIdx.x; i < n; i += 32) sum += x[r * n + i];
    sum = warp_sum(sum);
    if (threadIdx.x == 0) out[r] += sum;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int, cudaStream_t stream) {
  void* args[] = {&out, &x, &rows, &n};
  cudaLaunchCooperativeKernel((void*)halves, dim3(4), dim3(32), args, 0, stream);
  return cudaGetLastError();
}
