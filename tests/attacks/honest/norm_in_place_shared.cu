// The row is staged in shared memory by pieces.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

__device__ float all_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

template <typename T>
__global__ void norm(T* x, float* norms, int64_t n, float eps) {
  __shared__ float staged[2048];
  T* row = x + blockIdx.x * n;
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) {
    const float v = float(row[i]);
    if (i < 2048) staged[i] = v;
    sum += v * v;
  }
  __syncwarp();
  const float length = sqrtf(all_sum(sum) + eps);
  for (int64_t i = threadIdx.x; i < n; i += 32)
    row[i] = T((i < 2048 ? staged[i] : float(row[i])) / length);
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
