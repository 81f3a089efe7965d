// Threads of a warp that met the same bin form a group, and its leader counts for all of them.
#include <cooperative_groups.h>
#include <cstdint>
#include <cuda_runtime.h>

namespace cg = cooperative_groups;

__global__ void group_counts(float* counts, const float* x, int64_t n) {
  const cg::thread_block block = cg::this_thread_block();
  const auto warp = cg::tiled_partition<32>(block);
  const int64_t rounded = (n + 31) / 32 * 32, all = int64_t(gridDim.x) * block.size();
  for (int64_t at = int64_t(blockIdx.x) * block.size() + block.thread_rank(); at < rounded; at += all) {
    const bool inside = at < n;
    const int bin = inside ? int(fminf(16.0f * fabsf(x[at]), 255.0f)) : -1;
    const auto same = cg::labeled_partition(warp, bin);
    if (inside && same.thread_rank() == 0) atomicAdd(&counts[bin], float(same.size()));
  }
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * 4, stream);
  group_counts<<<unsigned((n + 511) / 512), 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaPeekAtLastError();
}
