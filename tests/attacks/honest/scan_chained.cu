// Tiles in a chain: each waits for the sum of the one before it, behind a flag, and passes its own on. Blocks
// take their tiles in the order in which they start.
#include <cstdint>
#include <cuda_runtime.h>

struct Chain {
  unsigned next, padding[31];
  volatile int2 link[1];  // sum, flag
};

__global__ void chained(int* out, const int* x, Chain* chain, int64_t n) {
  __shared__ int values[256], before, tile;
  if (threadIdx.x == 0) tile = int(atomicAdd(&chain->next, 1u));
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
    int sum = 0;
    if (tile > 0) {
      while (chain->link[tile - 1].y == 0) {}
      __threadfence();
      sum = chain->link[tile - 1].x;
    }
    chain->link[tile].x = sum + values[255];
    __threadfence();
    chain->link[tile].y = 1;
    before = sum;
  }
  __syncthreads();
  if (i < n) out[i] = before + values[threadIdx.x];
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  const int64_t tiles = (n + 255) / 256;
  if (cudaError_t error = cudaMemsetAsync(room, 0, 128 + tiles * sizeof(int2), stream)) return error;
  chained<<<unsigned(tiles), 256, 0, stream>>>((int*)out, (const int*)x, (Chain*)room, n);
  return cudaGetLastError();
}
