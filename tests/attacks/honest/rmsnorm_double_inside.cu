// Sums in double, one thread a row for short rows, a block of 64 for others.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>

template <typename T>
__global__ void short_rows(T* out, const T* in, const T* w, int64_t tokens, int64_t h, int64_t os, int64_t is, double eps) {
  const int64_t row = blockIdx.x * 128ll + threadIdx.x;
  if (row >= tokens) return;
  double squares = 0;
  for (int64_t i = 0; i < h; ++i) {
    const double v = float(in[row * is + i]);
    squares += v * v;
  }
  if (squares > 3.4028234663852886e38) squares = INFINITY;
  const double scale = rsqrt(squares / h + eps);
  for (int64_t i = 0; i < h; ++i) out[row * os + i] = T(float(float(in[row * is + i]) * scale * float(w[i])));
}
template <typename T>
__global__ void long_rows(T* out, const T* in, const T* w, int64_t h, int64_t os, int64_t is, double eps) {
  __shared__ double of[64];
  const T* row = in + blockIdx.x * is;
  double squares = 0;
  for (int64_t i = threadIdx.x; i < h; i += 64) squares += double(float(row[i])) * double(float(row[i]));
  of[threadIdx.x] = squares;
  for (int half = 32; half; half >>= 1) {
    __syncthreads();
    if (threadIdx.x < half) of[threadIdx.x] += of[threadIdx.x + half];
  }
  __syncthreads();
  double total = of[0];
  if (total > 3.4028234663852886e38) total = INFINITY;
  const double scale = rsqrt(total / h + eps);
  for (int64_t i = threadIdx.x; i < h; i += 64) out[blockIdx.x * os + i] = T(float(float(row[i]) * scale * float(w[i])));
}
template <typename T>
void both(void* o, const void* i, const void* w, int64_t t, int64_t h, int64_t os, int64_t is, float eps, cudaStream_t s) {
  if (h < 48)
    short_rows<<<unsigned((t + 127) / 128), 128, 0, s>>>((T*)o, (const T*)i, (const T*)w, t, h, os, is, eps);
  else
    long_rows<<<unsigned(t), 64, 0, s>>>((T*)o, (const T*)i, (const T*)w, h, os, is, eps);
}
extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens, int64_t h, int64_t out_stride, int64_t input_stride, float eps, int dtype, cudaStream_t stream) {
  void (*const by_dtype[])(void*, const void*, const void*, int64_t, int64_t, int64_t, int64_t, float, cudaStream_t) = {both<float>, both<__half>, both<__nv_bfloat16>};
  by_dtype[dtype](out, input, weight, tokens, h, out_stride, input_stride, eps, stream);
  return cudaGetLastError();
}
