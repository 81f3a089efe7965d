// The row lies in shared memory as float where it fits; squares by cub; a square root and a division.
#include <cub/block/block_reduce.cuh>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace {
constexpr int kBlock = 256, kFits = 8192;
template <typename T, bool kKept>
__global__ __launch_bounds__(kBlock) void rms(T* __restrict__ y, const T* __restrict__ x, const T* __restrict__ w, int n, int64_t ys, int64_t xs, float eps) {
  using Sum = cub::BlockReduce<float, kBlock, cub::BLOCK_REDUCE_RAKING>;
  __shared__ union { typename Sum::TempStorage sum; float inverse; } s;
  extern __shared__ float kept[];
  x += int64_t(blockIdx.x) * xs;
  y += int64_t(blockIdx.x) * ys;
  float own = 0;
  for (int i = threadIdx.x; i < n; i += kBlock) {
    const float v = float(x[i]);
    if (kKept) kept[i] = v;
    own += v * v;
  }
  own = Sum(s.sum).Sum(own);
  __syncthreads();
  if (threadIdx.x == 0) s.inverse = 1.0f / sqrtf(own / n + eps);
  __syncthreads();
  const float inverse = s.inverse;
  for (int i = threadIdx.x; i < n; i += kBlock) y[i] = T((kKept ? kept[i] : float(x[i])) * inverse * float(w[i]));
}
template <typename T>
cudaError_t go(void* y, const void* x, const void* w, int64_t t, int n, int64_t ys, int64_t xs, float eps, cudaStream_t s) {
  if (n <= kFits)
    rms<T, true><<<unsigned(t), kBlock, n * sizeof(float), s>>>((T*)y, (const T*)x, (const T*)w, n, ys, xs, eps);
  else
    rms<T, false><<<unsigned(t), kBlock, 0, s>>>((T*)y, (const T*)x, (const T*)w, n, ys, xs, eps);
  return cudaGetLastError();
}
}  // namespace

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens, int64_t h, int64_t out_stride, int64_t input_stride, float eps, int dtype, cudaStream_t stream) {
  return dtype == 0 ? go<float>(out, input, weight, tokens, int(h), out_stride, input_stride, eps, stream) : dtype == 1 ? go<__half>(out, input, weight, tokens, int(h), out_stride, input_stride, eps, stream) : go<__nv_bfloat16>(out, input, weight, tokens, int(h), out_stride, input_stride, eps, stream);
}
