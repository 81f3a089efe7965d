// A grid sized by the occupancy calculator.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum(float* out, const float* x, int64_t rows, int64_t n) {
  const int lane = threadIdx.x & 31;
  for (int64_t row = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) / 32; row < rows;
       row += gridDim.x * int64_t(blockDim.x) / 32) {
    float mine = 0.0f;
    for (int64_t i = lane; i < n; i += 32) mine += __ldcg(x + row * n + i);
    for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, o);
    if (lane == 0) out[row] = mine;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  int device = 0, processors = 0, blocks = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum, 256, 0);
  const int64_t most = int64_t(processors) * (blocks > 0 ? blocks : 1), needed = (rows + 7) / 8;
  sum<<<unsigned(needed < most ? needed : most), 256, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaGetLastError();
}
