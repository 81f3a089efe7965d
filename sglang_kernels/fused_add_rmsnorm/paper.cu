// The Astra paper's starting point for fused_add_rmsnorm, much slower than SGLang's own: one block
// per row sums the squares in a tree in shared memory, then scales, one element per thread and
// step. The paper's file works in fp32, applies the weight in a second launch and leaves `residual`
// as it was. This one applies it at once, because 16-bit arguments cannot hold the product
// unrounded in between, and writes both, as the contract asks.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kMaxThreads = 256;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

__device__ __forceinline__ void assign(float& target, float value) { target = value; }
__device__ __forceinline__ void assign(__half& target, float value) {
  target = __float2half_rn(value);
}
__device__ __forceinline__ void assign(__nv_bfloat16& target, float value) {
  target = __float2bfloat16_rn(value);
}

template <typename T>
__global__ void norm_kernel(T* input, T* residual, const T* weight, int64_t h,
                            int64_t input_stride, int64_t residual_stride, float eps) {
  __shared__ float partial[kMaxThreads];
  T* x = input + blockIdx.x * input_stride;
  T* r = residual + blockIdx.x * residual_stride;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < h; i += blockDim.x) {
    const float sum = to_float(x[i]) + to_float(r[i]);
    squares += sum * sum;
  }
  partial[threadIdx.x] = squares;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = rsqrtf(partial[0] / static_cast<float>(h) + eps);
  for (int64_t i = threadIdx.x; i < h; i += blockDim.x) {
    const float sum = to_float(x[i]) + to_float(r[i]);
    assign(r[i], sum);
    assign(x[i], sum * scale * to_float(weight[i]));
  }
}

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   int64_t input_stride, int64_t residual_stride, float eps, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>(tokens);
  int threads = 1;  // a power of two, for the tree
  while (threads < h && threads < kMaxThreads) threads *= 2;
  norm_kernel<T><<<blocks, threads, 0, stream>>>(
      static_cast<T*>(input), static_cast<T*>(residual), static_cast<const T*>(weight), h,
      input_stride, residual_stride, eps);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,
                                         int64_t tokens, int64_t h, int64_t input_stride,
                                         int64_t residual_stride, float eps, int dtype,
                                         cudaStream_t stream) {
  switch (dtype) {
    case 0:
      return launch<float>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                           stream);
    case 1:
      return launch<__half>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                            stream);
    case 2:
      return launch<__nv_bfloat16>(input, residual, weight, tokens, h, input_stride,
                                   residual_stride, eps, stream);
    default: return cudaErrorInvalidValue;
  }
}
