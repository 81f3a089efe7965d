// A block sorts a tile by bins and counts the runs.
#include <cstdint>
#include <cuda_runtime.h>

__device__ int bin(float v) { return int(fminf(16.0f * fabsf(v), 255.0f)); }

__global__ void count(float* counts, const float* x, int64_t n) {
  __shared__ int tile[256];
  const int64_t i = blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x] = i < n ? bin(x[i]) : 256;
  __syncthreads();
  for (int size = 2; size <= 256; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const int other = threadIdx.x ^ stride;
      if (other > int(threadIdx.x)) {
        const bool up = (threadIdx.x & size) == 0;
        const int a = tile[threadIdx.x], b = tile[other];
        if ((a > b) == up) {
          tile[threadIdx.x] = b;
          tile[other] = a;
        }
      }
      __syncthreads();
    }
  const int mine = tile[threadIdx.x];
  if (mine < 256 && (threadIdx.x == 0 || tile[threadIdx.x - 1] != mine)) {
    int run = 1;
    while (threadIdx.x + run < 256 && tile[threadIdx.x + run] == mine) ++run;
    atomicAdd(&counts[mine], float(run));
  }
}

extern "C" cudaError_t histogram(void* counts, const void* x, int64_t n, int, cudaStream_t stream) {
  cudaMemsetAsync(counts, 0, 256 * sizeof(float), stream);
  count<<<unsigned((n + 255) / 256), 256, 0, stream>>>((float*)counts, (const float*)x, n);
  return cudaGetLastError();
}
