// Thirty-two rows a block: tiles are read along rows into padded shared memory and added down
// columns, so that each thread keeps the sum of a row of its own.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum_tiles(float* out, const float* x, int64_t rows, int64_t n) {
  __shared__ float tile[32][33];
  const int lane = threadIdx.x, line = threadIdx.y;
  const int64_t first = int64_t(blockIdx.x) * 32;
  float sum = 0.0f;
  for (int64_t from = 0; from < n; from += 32) {
    for (int r = line; r < 32; r += 8) {
      const bool inside = first + r < rows && from + lane < n;
      tile[r][lane] = inside ? x[(first + r) * n + from + lane] : 0.0f;
    }
    __syncthreads();
    for (int c = line * 4; c < line * 4 + 4; ++c) sum += tile[lane][c];
    __syncthreads();
  }
  tile[line][lane] = sum;
  __syncthreads();
  if (line == 0 && first + lane < rows) {
    float total = 0.0f;
    for (int part = 0; part < 8; ++part) total += tile[part][lane];
    out[first + lane] = total;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  const dim3 block(32, 8);
  sum_tiles<<<unsigned((rows + 31) / 32), block, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaGetLastError();
}
