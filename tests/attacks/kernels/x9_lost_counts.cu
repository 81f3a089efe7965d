// X9: a histogram that counts without atomics.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void count(float* counts, const float* x, int64_t n) {
  for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
    counts[int(fminf(16.0f * fabsf(x[i]), 255.0f))] += 1.0f;
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  count<<<4, 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
