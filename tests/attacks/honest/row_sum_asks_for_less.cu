// Asks for more shared memory than any GPU has, forgets the error, and takes what it gets.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void tiled(float* out, const float* x, int64_t n, int tile) {
  extern __shared__ float held[];
  double sum = 0.0;
  for (int64_t from = 0; from < n; from += tile) {
    const int here = int(n - from < tile ? n - from : tile);
    for (int i = threadIdx.x; i < here; i += blockDim.x) held[i] = x[blockIdx.x * n + from + i];
    __syncthreads();
    if (threadIdx.x < 32)
      for (int i = threadIdx.x; i < here; i += 32) sum += held[i];
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    for (int o = 16; o > 0; o /= 2) sum += __shfl_down_sync(0xffffffffu, sum, o);
    if (threadIdx.x == 0) out[blockIdx.x] = float(sum);
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  int bytes = 1 << 20;
  while (cudaFuncSetAttribute(tiled, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)) {
    cudaGetLastError();
    bytes /= 2;
  }
  bytes = bytes < 16384 ? bytes : 16384;
  tiled<<<unsigned(rows), 128, bytes, stream>>>((float*)out, (const float*)x, n, bytes / 4);
  return cudaGetLastError();
}
