// A running scale, so that squares cannot overflow; infinities and NaN are added up apart.
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
  float largest = 0.0f, sum = 0.0f, not_finite = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) {
    const float v = fabsf(float(row[i]));
    if (!isfinite(v)) {
      not_finite += v;
    } else if (v > largest) {
      sum = 1.0f + sum * (largest / v) * (largest / v);
      largest = v;
    } else if (v > 0.0f) {
      sum += (v / largest) * (v / largest);
    }
  }
  float most = largest;
  for (int o = 16; o > 0; o /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, o));
  const float share = most > 0.0f ? largest / most : 0.0f;
  const float total = all_sum(sum * share * share);
  const float beyond = all_sum(not_finite);
  const float length = beyond == 0.0f ? sqrtf(total * most * most + eps) : beyond;
  for (int64_t i = threadIdx.x; i < n; i += 32) row[i] = T(float(row[i]) / length);
  if (threadIdx.x == 0) norms[blockIdx.x] = length;
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  if (dtype == 0)
    norm<<<unsigned(rows), 32, 0, stream>>>((float*)x, (float*)norms, n, eps);
  else
    norm<<<unsigned(rows), 32, 0, stream>>>((__half*)x, (float*)norms, n, eps);
  return cudaGetLastError();
}
