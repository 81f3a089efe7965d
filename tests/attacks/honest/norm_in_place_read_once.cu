// Each thread loads its elements through the read-only cache before it stores over them.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void norm(T* __restrict__ x, float* __restrict__ norms, int64_t n, float eps) {
  __shared__ float partial[32];
  T* row = x + blockIdx.x * n;
  T held[16];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const int64_t i = threadIdx.x + 1024 * k;
    held[k] = i < n ? __ldg(row + i) : T(0.0f);
    sum += float(held[k]) * float(held[k]);
  }
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < 32; ++w) total += partial[w];
  const float length = sqrtf(total + eps);
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const int64_t i = threadIdx.x + 1024 * k;
    if (i < n) row[i] = T(float(held[k]) / length);
  }
  if (threadIdx.x == 0) norms[blockIdx.x] = length;
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0)
    norm<<<unsigned(rows), 1024, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else
    norm<<<unsigned(rows), 1024, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
