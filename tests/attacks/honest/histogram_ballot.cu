// A warp votes bit by bit on the bins of its lanes.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  const bool here = i < n;
  const int mine = here ? bin(x[i]) : 0;
  unsigned same = __ballot_sync(0xffffffffu, here);
  for (int bit = 0; bit < 8; ++bit) {
    const unsigned set = __ballot_sync(0xffffffffu, (mine >> bit) & 1);
    same &= ((mine >> bit) & 1) ? set : ~set;
  }
  const unsigned lane = threadIdx.x & 31;
  if (here && __popc(same & ((1u << lane) - 1)) == 0) atomicAdd(&counts[mine], float(__popc(same)));
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  count<<<unsigned((n + 63) / 64), 64, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
