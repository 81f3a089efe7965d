// One reciprocal square root a row, refined by Newton's step.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

__device__ float all_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

template <typename T>
__global__ void norm(T* x, float* norms, int64_t n, float eps) {
  T* row = x + blockIdx.x * n;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += float(row[i]) * float(row[i]);
  sum = all_sum(sum) + eps;
  float inverse = rsqrtf(sum);
  if (sum > 1e-30f && sum < 1e30f) inverse = inverse * (1.5f - 0.5f * sum * inverse * inverse);
  for (int64_t i = threadIdx.x; i < n; i += 32) row[i] = T(float(row[i]) * inverse);
  if (threadIdx.x == 0) norms[blockIdx.x] = sqrtf(sum);
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0)
    norm<<<unsigned(rows), 32, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else
    norm<<<unsigned(rows), 32, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
