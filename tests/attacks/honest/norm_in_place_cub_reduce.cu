// cub::BlockReduce, and a row that stays in registers where it is short enough.
#include <cub/block/block_reduce.cuh>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void norm(T* x, float* norms, int64_t n, float eps) {
  using Reduce = cub::BlockReduce<float, 256, cub::BLOCK_REDUCE_RAKING>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ float length;
  T* row = x + blockIdx.x * n;
  float held[4], sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int64_t i = threadIdx.x + 256 * k;
    held[k] = i < n ? float(row[i]) : 0.0f;
    sum += held[k] * held[k];
  }
  for (int64_t i = threadIdx.x + 1024; i < n; i += 256) sum += float(row[i]) * float(row[i]);
  const float total = Reduce(storage).Sum(sum);
  if (threadIdx.x == 0) norms[blockIdx.x] = length = sqrtf(total + eps);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int64_t i = threadIdx.x + 256 * k;
    if (i < n) row[i] = T(held[k] / length);
  }
  for (int64_t i = threadIdx.x + 1024; i < n; i += 256) row[i] = T(float(row[i]) / length);
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0)
    norm<<<unsigned(rows), 256, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else
    norm<<<unsigned(rows), 256, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
