// A chain whose link is one volatile word, sum and flag at once, so that no fence is needed: all threads
// of a tile look at it, and read it once more.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void links(int* out, const int* x, unsigned long long* room, int64_t n) {
  __shared__ unsigned tile;
  __shared__ int parts[8];
  if (threadIdx.x == 0) tile = unsigned(atomicAdd(room, 1ull));
  __syncthreads();
  volatile unsigned long long* link = room + 1;
  const int64_t i = tile * int64_t(256) + threadIdx.x;
  int sum = i < n ? x[i] : 0;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int o = 1; o < 32; o *= 2) {
    const int left = __shfl_up_sync(0xffffffffu, sum, o);
    if (lane >= o) sum += left;
  }
  if (lane == 31) parts[warp] = sum;
  __syncthreads();
  int tail = 0;
  for (int w = 0; w < 8; ++w) {
    if (w < warp) sum += parts[w];
    tail += parts[w];
  }
  int before = 0;
  if (tile > 0) {
    while ((link[tile - 1] & 1) == 0) {}
    before = int(link[tile - 1] >> 32);
  }
  if (threadIdx.x == 0) link[tile] = (unsigned long long)(unsigned(before + tail)) << 32 | 1;
  if (i < n) out[i] = before + sum;
}

extern "C" cudaError_t scan(void* out, const void* x, void* room, int64_t n, cudaStream_t stream) {
  const int64_t tiles = (n + 255) / 256;
  if (cudaError_t error = cudaMemsetAsync(room, 0, (tiles + 1) * 8, stream)) return error;
  links<<<unsigned(tiles), 256, 0, stream>>>((int*)out, (const int*)x, (unsigned long long*)room, n);
  return cudaGetLastError();
}
