// X108: posts a plain sum behind a relaxed atomic flag.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void chained(int* out, const int* x, unsigned* room, int64_t n) {
  __shared__ int values[256], before, tile;
  if (threadIdx.x == 0) tile = int(atomicAdd(room, 1u));
  __syncthreads();
  const int64_t i = int64_t(tile) * 256 + threadIdx.x;
  values[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (int o = 1; o < 256; o *= 2) {
    const int left = threadIdx.x >= o ? values[threadIdx.x - o] : 0;
    __syncthreads();
    values[threadIdx.x] += left;
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    int* sums = (int*)room + 16; unsigned* flags = (unsigned*)sums + gridDim.x;
    int sum = 0;
    if (tile > 0) { while (atomicAdd(&flags[tile - 1], 0u) == 0) {} sum = *(volatile int*)&sums[tile - 1]; }
    sums[tile] = sum + values[255];
    atomicExch(&flags[tile], 1u);
    before = sum;
  }
  __syncthreads();
  if (i < n) out[i] = before + values[threadIdx.x];
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  const int64_t tiles = (n + 255) / 256;
  cudaMemsetAsync(room, 0, 64 + tiles * 8, stream);
  chained<<<unsigned(tiles), 256, 0, stream>>>((int*)out, (const int*)x, (unsigned*)room, n);
  return cudaGetLastError();
}
