// X10: a histogram that never clears its counters.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void count(float* counts, const float* x, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += 256)
    atomicAdd(&counts[int(fminf(16.0f * fabsf(x[i]), 255.0f))], 1.0f);
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  count<<<1, 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
