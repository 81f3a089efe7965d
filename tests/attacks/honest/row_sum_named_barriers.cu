// Two warps fetch into two buffers, two warps add up; four named barriers hand the buffers over.
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kTile = 256;

__device__ void arrive(int barrier) { asm volatile("bar.arrive %0, 128;" ::"r"(barrier) : "memory"); }
__device__ void meet(int barrier) { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); }

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __shared__ float tile[2][kTile];
  __shared__ float partial[2];
  const int64_t tiles = (n + kTile - 1) / kTile;
  const float* row = x + blockIdx.x * n;
  if (threadIdx.x < 64) {  // producers; barriers 1 and 2: a tile is full, 3 and 4: it is empty
    for (int64_t t = 0; t < tiles; ++t) {
      if (t >= 2) meet(3 + int(t % 2));
      for (int i = threadIdx.x; i < kTile; i += 64)
        tile[t % 2][i] = t * kTile + i < n ? row[t * kTile + i] : 0.0f;
      arrive(1 + int(t % 2));
    }
  } else {
    float sum = 0.0f;
    for (int64_t t = 0; t < tiles; ++t) {
      meet(1 + int(t % 2));
      for (int i = threadIdx.x - 64; i < kTile; i += 64) sum += tile[t % 2][i];
      if (t + 2 < tiles) arrive(3 + int(t % 2));
    }
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32 - 2] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = partial[0] + partial[1];
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 128, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
