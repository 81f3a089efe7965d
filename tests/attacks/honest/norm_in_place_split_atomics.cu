// Three launches: lengths of pieces are added up in an argument, finished, and divided by.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void add_squares(const T* x, float* norms, int64_t n) {
  const int64_t row = blockIdx.x, first = blockIdx.y * 1024;
  float sum = 0.0f;
  for (int64_t i = first + threadIdx.x; i < n && i < first + 1024; i += 128)
    sum += float(x[row * n + i]) * float(x[row * n + i]);
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) atomicAdd(norms + row, sum);
}

__global__ void finish(float* norms, int64_t rows, float eps) {
  const int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) norms[row] = sqrtf(norms[row] + eps);
}

template <typename T>
__global__ void divide(T* x, const float* __restrict__ norms, int64_t n) {
  const int64_t row = blockIdx.x, i = int64_t(blockIdx.y) * 128 + threadIdx.x;
  if (i < n) x[row * n + i] = T(float(x[row * n + i]) / norms[row]);
}

template <typename T>
static cudaError_t launch(T* x, float* norms, int64_t rows, int64_t n, float eps, cudaStream_t stream) {
  if (cudaError_t error = cudaMemsetAsync(norms, 0, rows * sizeof(float), stream)) return error;
  add_squares<<<dim3(unsigned(rows), unsigned((n + 1023) / 1024)), 128, 0, stream>>>(x, norms, n);
  finish<<<unsigned((rows + 255) / 256), 256, 0, stream>>>(norms, rows, eps);
  divide<<<dim3(unsigned(rows), unsigned((n + 127) / 128)), 128, 0, stream>>>(x, norms, n);
  return cudaGetLastError();
}

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  return dtype == 0 ? launch((float*)x, (float*)norms, rows, n, eps, stream)
                    : launch((__half*)x, (float*)norms, rows, n, eps, stream);
}
