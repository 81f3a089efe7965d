// The Astra paper's starting point for silu_and_mul: a naive rewrite, much slower than SGLang's own
// kernel. 128 threads, at most 256 blocks that loop over rows, one element per thread and step, any
// strides.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;
constexpr int64_t kMaxBlocks = 256;

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
__global__ void silu_and_mul_kernel(T* out, const T* input, int64_t tokens, int64_t d,
                                    int64_t input_row_stride, int64_t input_stride,
                                    int64_t out_row_stride, int64_t out_stride) {
  for (int64_t token = blockIdx.x; token < tokens; token += gridDim.x) {
    for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
      const float x = to_float(input[token * input_row_stride + i * input_stride]);
      const float y = to_float(input[token * input_row_stride + (i + d) * input_stride]);
      const float silu = x / (1.0f + expf(-x));
      assign(out[token * out_row_stride + i * out_stride], silu * y);
    }
  }
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int64_t blocks = tokens < kMaxBlocks ? tokens : kMaxBlocks;
  silu_and_mul_kernel<T><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
      static_cast<T*>(out), static_cast<const T*>(input), tokens, d, 2 * d, 1, d, 1);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
