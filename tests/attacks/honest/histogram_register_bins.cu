// A thread owns a bin and reads everything through shared memory.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  __shared__ int tile[256];
  int mine = 0;
  for (int64_t begin = 0; begin < n; begin += 256) {
    const int64_t i = begin + threadIdx.x;
    tile[threadIdx.x] = i < n ? bin(x[i]) : -1;
    __syncthreads();
    for (int t = 0; t < 256; ++t) mine += tile[t] == int(threadIdx.x);
    __syncthreads();
  }
  counts[threadIdx.x] = float(mine);
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  count<<<1, 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
