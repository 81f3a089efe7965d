// Cooperative groups: tiles of sixteen threads.
#include <cstdint>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

__global__ void sum(float* out, const float* x, int64_t rows, int64_t n) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  const int64_t row = blockIdx.x * int64_t(tile.meta_group_size()) + tile.meta_group_rank();
  if (row >= rows) return;
  float mine = 0.0f;
  for (int64_t i = tile.thread_rank(); i < n; i += tile.size()) mine += x[row * n + i];
  mine = cg::reduce(tile, mine, cg::plus<float>());
  if (tile.thread_rank() == 0) out[row] = mine;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned((rows + 7) / 8), 128, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaGetLastError();
}
