// Two 16-bit elements a word where everything is even, kept in registers; Kahan's sum otherwise.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <type_traits>

template <typename T>
__device__ float2 widened(uint32_t bits) {
  if constexpr (std::is_same_v<T, __half>) return __half22float2(*reinterpret_cast<__half2*>(&bits));
  return make_float2(__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u));
}
template <typename T>
__device__ uint32_t narrowed(float a, float b) {
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 two = __floats2half2_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&two);
  } else {
    const __nv_bfloat162 two = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<const uint32_t*>(&two);
  }
}
__device__ float whole_block(float v, float* shared) {
  for (int d = 16; d; d >>= 1) v += __shfl_down_sync(0xffffffff, v, d);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = 0;
  for (int i = 0; i < int(blockDim.x) / 32; ++i) v += shared[i];
  return v;
}
template <typename T>
__global__ void by_words(uint32_t* out, const uint32_t* in, const uint32_t* w, int words, int64_t os, int64_t is, float eps) {
  __shared__ float shared[16];
  constexpr int kHeld = 8;
  uint32_t held[kHeld];
  const uint32_t* row = in + blockIdx.x * is;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int at = threadIdx.x + k * blockDim.x;
    held[k] = at < words ? row[at] : 0u;
    const float2 v = widened<T>(held[k]);
    sum += v.x * v.x + v.y * v.y;
  }
  for (int at = threadIdx.x + kHeld * blockDim.x; at < words; at += blockDim.x) {
    const float2 v = widened<T>(row[at]);
    sum += v.x * v.x + v.y * v.y;
  }
  const float scale = rsqrtf(__fdividef(whole_block(sum, shared), 2.0f * words) + eps);
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    const int at = threadIdx.x + k * blockDim.x;
    if (at >= words) break;
    const float2 v = widened<T>(held[k]), f = widened<T>(w[at]);
    out[blockIdx.x * os + at] = narrowed<T>(v.x * scale * f.x, v.y * scale * f.y);
  }
  for (int at = threadIdx.x + kHeld * blockDim.x; at < words; at += blockDim.x) {
    const float2 v = widened<T>(row[at]), f = widened<T>(w[at]);
    out[blockIdx.x * os + at] = narrowed<T>(v.x * scale * f.x, v.y * scale * f.y);
  }
}
template <typename T>
__global__ void by_elements(T* out, const T* in, const T* w, int h, int64_t os, int64_t is, float eps) {
  __shared__ float shared[16];
  const T* row = in + blockIdx.x * is;
  float sum = 0, lost = 0;
  for (int at = threadIdx.x; at < h; at += blockDim.x) {
    const float term = __fsub_rn(__fmul_rn(float(row[at]), float(row[at])), lost), next = __fadd_rn(sum, term);
    lost = isfinite(next) ? __fsub_rn(__fsub_rn(next, sum), term) : 0.f;
    sum = next;
  }
  const float scale = rsqrtf(whole_block(sum, shared) / h + eps);
  for (int at = threadIdx.x; at < h; at += blockDim.x) out[blockIdx.x * os + at] = T(float(row[at]) * (scale * float(w[at])));
}
template <typename T>
void launch(void* out, const void* in, const void* w, int64_t t, int64_t h, int64_t os, int64_t is, float eps, cudaStream_t s) {
  if (sizeof(T) == 2 && (h | os | is) % 2 == 0)
    by_words<T><<<unsigned(t), 256, 0, s>>>((uint32_t*)out, (const uint32_t*)in, (const uint32_t*)w, int(h / 2), os / 2, is / 2, eps);
  else
    by_elements<<<unsigned(t), 256, 0, s>>>((T*)out, (const T*)in, (const T*)w, int(h), os, is, eps);
}
extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens, int64_t h, int64_t out_stride, int64_t input_stride, float eps, int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: launch<float>(out, input, weight, tokens, h, out_stride, input_stride, eps, stream); break;
    case 1: launch<__half>(out, input, weight, tokens, h, out_stride, input_stride, eps, stream); break;
    default: launch<__nv_bfloat16>(out, input, weight, tokens, h, out_stride, input_stride, eps, stream);
  }
  return cudaGetLastError();
}
