// A cluster of two blocks a row, added through distributed shared memory.
#include <cstdint>
#include <cuda_runtime.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) sum(float* out, const float* x, int64_t n) {
  __shared__ float partial;
  cg::cluster_group cluster = cg::this_cluster();
  const int64_t row = blockIdx.x / 2;
  float mine = 0.0f;
  for (int64_t i = cluster.block_rank() * 32 + threadIdx.x; i < n; i += 64) mine += x[row * n + i];
  for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, o);
  if (threadIdx.x == 0) partial = mine;
  cluster.sync();
  if (cluster.block_rank() == 0 && threadIdx.x == 0)
    out[row] = partial + *cluster.map_shared_rank(&partial, 1);
  cluster.sync();
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(2 * rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
