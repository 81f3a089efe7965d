// Atomics straight to the result.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  const int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) atomicAdd(&counts[bin(x[i])], 1.0f);
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  count<<<unsigned((n + 127) / 128), 128, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
