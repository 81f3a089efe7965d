// A block looks at a quarter of the bins only.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  __shared__ int mine[64];
  const int low = blockIdx.y * 64;
  if (threadIdx.x < 64) mine[threadIdx.x] = 0;
  __syncthreads();
  for (int64_t i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) {
    const int b = bin(x[i]) - low;
    if (unsigned(b) < 64u) atomicAdd(&mine[b], 1);
  }
  __syncthreads();
  if (threadIdx.x < 64 && mine[threadIdx.x])
    atomicAdd(&counts[low + threadIdx.x], float(mine[threadIdx.x]));
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  count<<<dim3(4, 4), 128, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
