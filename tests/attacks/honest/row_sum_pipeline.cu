// cuda::memcpy_async through a pipeline of two stages.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda/pipeline>

__global__ void sum(float* out, const float* x, int64_t n) {
  __shared__ float staged[2][128];
  auto pipe = cuda::make_pipeline();
  const int64_t tiles = (n + 127) / 128;
  float mine = 0.0f;
  for (int64_t t = 0; t < tiles + 1; ++t) {
    if (t < tiles) {
      pipe.producer_acquire();
      const int64_t i = t * 128 + threadIdx.x;
      if (i < n) cuda::memcpy_async(&staged[t & 1][threadIdx.x], x + blockIdx.x * n + i, sizeof(float), pipe);
      pipe.producer_commit();
    }
    if (t > 0) {
      if (t < tiles) cuda::pipeline_consumer_wait_prior<1>(pipe);
      else cuda::pipeline_consumer_wait_prior<0>(pipe);
      if ((t - 1) * 128 + threadIdx.x < n) mine += staged[(t - 1) & 1][threadIdx.x];
      pipe.consumer_release();
    }
  }
  __shared__ float total;
  if (threadIdx.x == 0) total = 0.0f;
  __syncthreads();
  atomicAdd_block(&total, mine);
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 128, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
