// cub's BlockHistogram.
#include <cstdint>
#include <cuda_runtime.h>
#include <cub/block/block_histogram.cuh>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  using Histogram = cub::BlockHistogram<unsigned char, 128, 4, 257>;
  __shared__ typename Histogram::TempStorage storage;
  __shared__ unsigned mine[257];
  unsigned char items[4];
  int padding = 0;
  for (int k = 0; k < 4; ++k) {
    const int64_t i = (blockIdx.x * 128 + threadIdx.x) * int64_t(4) + k;
    items[k] = i < n ? (unsigned char)bin(x[i]) : (unsigned char)0;
    padding += i >= n;
  }
  Histogram(storage).Histogram(items, mine);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += 128)
    if (mine[b]) atomicAdd(&counts[b], float(mine[b]));
  __syncthreads();
  if (padding) atomicAdd(&counts[0], -float(padding));
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  count<<<unsigned((n + 511) / 512), 128, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
