// A histogram a warp in shared memory, merged at the end.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  __shared__ unsigned mine[4][256];
  for (int b = threadIdx.x; b < 1024; b += 128) (&mine[0][0])[b] = 0;
  __syncthreads();
  for (int64_t i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128)
    atomicAdd(&mine[threadIdx.x / 32][bin(x[i])], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += 128) {
    const unsigned total = mine[0][b] + mine[1][b] + mine[2][b] + mine[3][b];
    if (total) atomicAdd(&counts[b], float(total));
  }
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  count<<<8, 128, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
