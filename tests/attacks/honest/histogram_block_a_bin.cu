// A block counts one bin: no atomics at all.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  int mine = 0;
  for (int64_t i = threadIdx.x; i < n; i += 128) mine += bin(x[i]) == int(blockIdx.x);
  const int total = __syncthreads_count(0) + mine;
  __shared__ int partial[128];
  partial[threadIdx.x] = total;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) counts[blockIdx.x] = float(partial[0]);
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  count<<<256, 128, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
