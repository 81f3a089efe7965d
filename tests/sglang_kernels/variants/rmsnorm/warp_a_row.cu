// A warp a row, one element a lane at a time; the weight is read before the sum is known.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

__device__ inline float wide(float value) { return value; }
__device__ inline float wide(__half value) { return __half2float(value); }
__device__ inline float wide(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline void put(float* to, float value) { *to = value; }
__device__ inline void put(__half* to, float value) { *to = __float2half_rn(value); }
__device__ inline void put(__nv_bfloat16* to, float value) { *to = __float2bfloat16_rn(value); }

template <typename T>
__global__ void warp_a_row(T* out, const T* input, const T* weight, int64_t tokens, int64_t h,
                           int64_t out_stride, int64_t input_stride, float eps) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= tokens) return;
  const int lane = threadIdx.x % 32;
  const T* x = input + row * input_stride;
  float squares = 0.0f;
  for (int64_t i = lane; i < h; i += 32) squares += wide(x[i]) * wide(x[i]);
  for (int apart = 16; apart > 0; apart /= 2) {
    squares += __shfl_down_sync(0xffffffffu, squares, apart);
  }
  squares = __shfl_sync(0xffffffffu, squares, 0);
  const float scale = rsqrtf(squares / h + eps);
  for (int64_t i = lane; i < h; i += 32) {
    put(out + row * out_stride + i, wide(x[i]) * scale * wide(weight[i]));
  }
}

template <typename T>
cudaError_t launch(void* out, const void* input, const void* weight, int64_t tokens, int64_t h,
                   int64_t out_stride, int64_t input_stride, float eps, cudaStream_t stream) {
  warp_a_row<T><<<static_cast<unsigned>((tokens + 3) / 4), 128, 0, stream>>>(
      static_cast<T*>(out), static_cast<const T*>(input), static_cast<const T*>(weight), tokens, h,
      out_stride, input_stride, eps);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens,
                               int64_t h, int64_t out_stride, int64_t input_stride, float eps,
                               int dtype, cudaStream_t stream) {
  const auto with = [&](auto kernel) {
    return kernel(out, input, weight, tokens, h, out_stride, input_stride, eps, stream);
  };
  if (dtype == 0) return with(launch<float>);
  if (dtype == 1) return with(launch<__half>);
  return with(launch<__nv_bfloat16>);
}
