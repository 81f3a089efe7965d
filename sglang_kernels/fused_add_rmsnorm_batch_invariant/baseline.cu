// RMSNorm with a residual as SGLang runs it in batch-invariant mode: what RMSNorm.forward_native of
// sglang/srt/layers/layernorm.py computes by operators of PyTorch, here in one launch. One block of
// 256 threads per row, element by element, in whatever batch: pass one adds the squares of the
// fp32 sums, pass two computes the sums again, stores the residual and scales. The order of every
// sum depends on the row's length alone.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) { return value; }
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) add_rmsnorm_kernel(T* input, T* residual,
                                                               const T* __restrict__ weight, int h,
                                                               float eps) {
  __shared__ float squares[kThreads];
  T* input_row = input + static_cast<int64_t>(blockIdx.x) * h;
  T* residual_row = residual + static_cast<int64_t>(blockIdx.x) * h;

  float own = 0.0f;
  for (int at = threadIdx.x; at < h; at += kThreads) {
    const float sum = to_float(input_row[at]) + to_float(residual_row[at]);
    own += sum * sum;
  }
  squares[threadIdx.x] = own;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) squares[threadIdx.x] += squares[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = rsqrtf(squares[0] / static_cast<float>(h) + eps);

  for (int at = threadIdx.x; at < h; at += kThreads) {
    const float sum = to_float(input_row[at]) + to_float(residual_row[at]);
    residual_row[at] = from_float<T>(sum);
    input_row[at] = from_float<T>(sum * scale * to_float(weight[at]));
  }
}

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   float eps, cudaStream_t stream) {
  add_rmsnorm_kernel<T><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
      static_cast<T*>(input), static_cast<T*>(residual), static_cast<const T*>(weight),
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
