// Two kernels: lengths first, then a scaling kernel over all elements.
#include <cstdint>
#include <cuda_runtime.h>
#include <cuda_fp16.h>

__device__ float all_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

template <typename T>
__global__ void lengths(const T* x, float* norms, int64_t n, float eps) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) {
    const float v = float(x[blockIdx.x * n + i]);
    sum = fmaf(v, v, sum);
  }
  sum = all_sum(sum);
  if (threadIdx.x == 0) norms[blockIdx.x] = sqrtf(sum + eps);
}

template <typename T>
__global__ void scale(T* x, const float* norms, int64_t rows, int64_t n) {
  const int64_t i = blockIdx.x * 256 + threadIdx.x;
  if (i < rows * n) x[i] = T(float(x[i]) / norms[i / n]);
}

template <typename T>
static cudaError_t launch(T* x, float* norms, int64_t rows, int64_t n, float eps, cudaStream_t stream) {
  lengths<<<unsigned(rows), 32, 0, stream>>>(x, norms, n, eps);
  scale<<<unsigned((rows * n + 255) / 256), 256, 0, stream>>>(x, norms, rows, n);
  return cudaGetLastError();
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  return dtype == 0 ? launch((float*)x, (float*)norms, rows, n, eps, stream)
                    : launch((__half*)x, (float*)norms, rows, n, eps, stream);
}
