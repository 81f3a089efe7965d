// cub's WarpReduce.
#include <cstdint>
#include <cuda_runtime.h>
#include <cub/warp/warp_reduce.cuh>

__global__ void sum(float* out, const float* x, int64_t n) {
  using Reduce = cub::WarpReduce<float>;
  __shared__ typename Reduce::TempStorage storage;
  float mine = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) mine += x[blockIdx.x * n + i];
  const float total = Reduce(storage).Sum(mine);
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
