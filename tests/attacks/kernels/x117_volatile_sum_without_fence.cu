// X117: sum and flag by volatile stores, with no fence between them.
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
    volatile int* sums = (int*)room + 16;
    volatile int* flags = sums + gridDim.x;
    int sum = 0;
    if (tile > 0) {
      while (flags[tile - 1] == 0) {}
      sum = sums[tile - 1];
    }
    sums[tile] = sum + values[255];
    flags[tile] = 1;
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
