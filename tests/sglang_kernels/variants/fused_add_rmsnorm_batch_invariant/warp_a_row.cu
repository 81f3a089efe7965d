// An honest fused_add_rmsnorm_batch_invariant: a warp a row, several rows a block. Which warp of a
// block has a row says nothing of the order of its sum.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kRows = 4;

__device__ float to_float(float value) { return value; }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ void store(float* to, float value) { *to = value; }
__device__ void store(__half* to, float value) { *to = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <typename T>
__global__ void warp_kernel(T* input, T* residual, const T* weight, int64_t tokens, int h,
                            float eps) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y;
  if (row >= tokens) return;
  T* x = input + row * h;
  T* r = residual + row * h;
  float squares = 0.0f;
  for (int at = threadIdx.x; at < h; at += 32) {
    const float sum = to_float(x[at]) + to_float(r[at]);
    squares = fmaf(sum, sum, squares);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    squares += __shfl_xor_sync(0xffffffffu, squares, offset);
  }
  const float scale = rsqrtf(squares / static_cast<float>(h) + eps);
  for (int at = threadIdx.x; at < h; at += 32) {
    const float sum = to_float(x[at]) + to_float(r[at]);
    store(r + at, sum);
    store(x + at, sum * scale * to_float(weight[at]));
  }
}

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   float eps, cudaStream_t stream) {
  warp_kernel<T><<<static_cast<unsigned>((tokens + kRows - 1) / kRows), dim3(32, kRows), 0, stream>>>(
      static_cast<T*>(input), static_cast<T*>(residual), static_cast<const T*>(weight), tokens,
      static_cast<int>(h), eps);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm_batch_invariant(void* input, void* residual,
                                                         const void* weight, int64_t tokens,
                                                         int64_t h, float eps, int dtype,
                                                         cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(input, residual, weight, tokens, h, eps, stream);
    case 1: return launch<__half>(input, residual, weight, tokens, h, eps, stream);
    case 2: return launch<__nv_bfloat16>(input, residual, weight, tokens, h, eps, stream);
    default: return cudaErrorInvalidValue;
  }
}
