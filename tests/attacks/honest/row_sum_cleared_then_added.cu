// Clears the sums on the stream; then as many blocks as a row has tiles add to each.
#include <algorithm>
#include <cstdint>
#include <cuda_runtime.h>

static constexpr int kTile = 2048, kMostY = 65535;

__global__ void add_tiles(float* __restrict__ out, const float* __restrict__ x, int64_t rows,
                          int64_t n) {
  const int64_t start = int64_t(blockIdx.x) * kTile, end = min(start + kTile, n);
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    float sum = 0.0f;
    for (int64_t i = start + threadIdx.x; i < end; i += blockDim.x) sum += __ldcs(x + row * n + i);
    for (int far = 16; far; far >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, far);
    if ((threadIdx.x & 31) == 0) atomicAdd(out + row, sum);
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  if (cudaError_t bad = cudaMemsetAsync(out, 0, rows * sizeof(float), stream)) return bad;
  const dim3 grid((n + kTile - 1) / kTile, static_cast<unsigned>(std::min<int64_t>(rows, kMostY)));
  add_tiles<<<grid, 64, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaPeekAtLastError();
}
