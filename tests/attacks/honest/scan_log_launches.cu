// Hillis and Steele by launches: in each, all elements add the one that lies 1, 2, 4, ... places before, from
// one buffer to another. The second buffer is in the workspace.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void step(int* __restrict__ to, const int* __restrict__ from, int64_t n, int64_t distance) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) to[i] = from[i] + (i >= distance ? from[i - distance] : 0);
}

__global__ void within(int* out, const int* x, int64_t n, int64_t tile) {  // tiles that a thread adds up
  const int64_t first = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * tile;
  int sum = 0;
  for (int64_t i = first; i < n && i < first + tile; ++i) out[i] = sum += x[i];
}

__global__ void pick(int* to, const int* out, int64_t tiles, int64_t tile, int64_t n) {
  const int64_t t = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (t < tiles) to[t] = out[min((t + 1) * tile, n) - 1];
}

__global__ void lift(int* out, const int* sums, int64_t n, int64_t tile) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n && i >= tile) out[i] += sums[i / tile - 1];
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  const int64_t tile = 1024, tiles = (n + tile - 1) / tile;
  int *now = (int*)room, *next = now + tiles;
  const unsigned blocks = unsigned((tiles + 127) / 128);
  within<<<blocks, 128, 0, stream>>>((int*)out, (const int*)x, n, tile);
  pick<<<blocks, 128, 0, stream>>>(now, (const int*)out, tiles, tile, n);
  for (int64_t distance = 1; distance < tiles; distance *= 2) {
    step<<<blocks, 128, 0, stream>>>(next, now, tiles, distance);
    int* const held = now;
    now = next, next = held;
  }
  lift<<<unsigned((n + 255) / 256), 256, 0, stream>>>((int*)out, now, n, tile);
  return cudaGetLastError();
}
