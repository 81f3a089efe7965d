// A cluster of two blocks: bins below 128 are counted in the first one's shared memory, the others in the second's.
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) halves(float* counts, const float* x, int64_t n) {
  __shared__ int own[128];
  const auto cluster = cg::this_cluster();
  if (threadIdx.x < 128) own[threadIdx.x] = 0;
  cluster.sync();
  for (int64_t i = blockIdx.x * int64_t(256) + threadIdx.x; i < n; i += gridDim.x * int64_t(256)) {
    const int bin = int(fminf(16.0f * fabsf(x[i]), 255.0f));
    atomicAdd(cluster.map_shared_rank(&own[bin % 128], bin / 128), 1);
  }
  cluster.sync();
  if (threadIdx.x < 128) atomicAdd(&counts[cluster.block_rank() * 128 + threadIdx.x], float(own[threadIdx.x]));
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  if (cudaError_t error = cudaMemsetAsync(counts, 0, 1024, stream)) return error;
  halves<<<n < 16384 ? 2 : 64, 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
