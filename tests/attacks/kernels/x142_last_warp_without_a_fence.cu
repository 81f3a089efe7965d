// X142: the warp of a block that counts itself last in shared memory adds up what the others left there, and no
// fence lies between a sum and its count.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void counted(float* out, const float* x, int64_t n) {
  __shared__ float sums[4];
  __shared__ unsigned count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  float mine = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 128) mine += x[blockIdx.x * n + i];
  for (int o = 16; o; o >>= 1) mine += __shfl_down_sync(~0u, mine, o);
  if (threadIdx.x % 32) return;
  sums[threadIdx.x / 32] = mine;
  if (atomicAdd(&count, 1u) == 3) out[blockIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  counted<<<unsigned(rows), 128, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
