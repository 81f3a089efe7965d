// The Astra paper's starting point for fused_add_rmsnorm: two kernels, much slower than SGLang's
// own. One block per row sums the squares in a tree in shared memory; a second launch applies, again
// one block per row, one element per thread and step. The paper's file leaves `residual` as it was;
// this one writes both, as the contract asks.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxTokens = 1048576;

// Between the kernels; the paper's file takes it from its framework, a launcher allocates nothing.
__device__ float scales[kMaxTokens];

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
__global__ void scale_kernel(const T* input, const T* residual, int64_t h, int64_t input_stride,
                             int64_t residual_stride, float eps) {
  __shared__ float partial[kThreads];
  const int64_t token = blockIdx.x;
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < h; i += blockDim.x) {
    const float sum = to_float(input[token * input_stride + i]) +
                      to_float(residual[token * residual_stride + i]);
    squares += sum * sum;
  }
  partial[threadIdx.x] = squares;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) scales[token] = rsqrtf(partial[0] / static_cast<float>(h) + eps);
}

template <typename T>
__global__ void apply_kernel(T* input, T* residual, const T* weight, int64_t h,
                             int64_t input_stride, int64_t residual_stride) {
  const int64_t token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < h; i += blockDim.x) {
    T& x = input[token * input_stride + i];
    T& r = residual[token * residual_stride + i];
    const float sum = to_float(x) + to_float(r);
    assign(r, sum);
    assign(x, sum * scales[token] * to_float(weight[i]));
  }
}

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   int64_t input_stride, int64_t residual_stride, float eps, cudaStream_t stream) {
  if (tokens > kMaxTokens) return cudaErrorInvalidValue;
  T* x = static_cast<T*>(input);
  T* r = static_cast<T*>(residual);
  const unsigned blocks = static_cast<unsigned>(tokens);
  scale_kernel<T><<<blocks, kThreads, 0, stream>>>(x, r, h, input_stride, residual_stride, eps);
  apply_kernel<T><<<blocks, kThreads, 0, stream>>>(x, r, static_cast<const T*>(weight), h,
                                                   input_stride, residual_stride);
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
