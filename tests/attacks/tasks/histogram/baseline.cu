// A private histogram a block in shared memory, added to the result at the end.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void count(float* counts, const float* x, int64_t n) {
  __shared__ int mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
    atomicAdd(&mine[int(fminf(16.0f * fabsf(x[i]), 255.0f))], 1);
  __syncthreads();
  if (mine[threadIdx.x]) atomicAdd(&counts[threadIdx.x], float(mine[threadIdx.x]));
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  const unsigned blocks = unsigned(n < 65536 ? (n + 255) / 256 : 256);
  count<<<blocks, 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
