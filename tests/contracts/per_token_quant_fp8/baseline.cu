// Per-token quantisation to fp8 (e4m3): the algorithm of SGLang's compiled library. Up to 2,111 tokens
// a block of 256 threads a token, from there on a warp a token; two passes over the row, vectors of
// eight elements.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kVector = 8;
constexpr int64_t kTokensOfWarps = 2112;
constexpr float kLargest = 448.0f;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
struct alignas(16) Vector {
  T item[kVector];
};

struct alignas(8) Codes {
  __nv_fp8_e4m3 item[kVector];
};

template <typename T>
__device__ __forceinline__ float largest_of(const T* row, int hidden, int thread, int threads) {
  float largest = 0.0f;
  for (int index = thread; index < hidden / kVector; index += threads) {
    const Vector<T> x = reinterpret_cast<const Vector<T>*>(row)[index];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      largest = fmaxf(largest, fabsf(to_float(x.item[i])));
    }
  }
  return largest;
}

__device__ __forceinline__ float of_warp(float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  }
  return value;
}

__device__ __forceinline__ float clamped(float value) {
  return fmaxf(fminf(value, kLargest), -kLargest);
}

template <typename T>
__device__ __forceinline__ void quantize(__nv_fp8_e4m3* codes, const T* row, float scale, int hidden,
                                         int thread, int threads) {
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (int index = thread; index < hidden / kVector; index += threads) {
    const Vector<T> x = reinterpret_cast<const Vector<T>*>(row)[index];
    Codes result;
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      result.item[i] = __nv_fp8_e4m3(clamped(to_float(x.item[i]) * inverse));
    }
    reinterpret_cast<Codes*>(codes)[index] = result;
  }
}

template <typename T>
__global__ void block_a_token(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                              float* __restrict__ output_s, int hidden) {
  __shared__ float of_warps[kWarps];
  const int64_t token = blockIdx.x;
  const T* row = input + token * hidden;
  const float own = of_warp(largest_of(row, hidden, threadIdx.x, kThreads));
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = own;
  __syncthreads();
  float largest = of_warps[0];
  for (int warp = 1; warp < kWarps; ++warp) largest = fmaxf(largest, of_warps[warp]);
  const float scale = largest / kLargest;
  if (threadIdx.x == 0) output_s[token] = scale;
  quantize(output_q + token * hidden, row, scale, hidden, threadIdx.x, kThreads);
}

template <typename T>
__global__ void warp_a_token(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                             float* __restrict__ output_s, int64_t tokens, int hidden) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (token >= tokens) return;
  const int lane = threadIdx.x % 32;
  const T* row = input + token * hidden;
  const float scale = of_warp(largest_of(row, hidden, lane, 32)) / kLargest;
  if (lane == 0) output_s[token] = scale;
  quantize(output_q + token * hidden, row, scale, hidden, lane, 32);
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   cudaStream_t stream) {
  const T* in = static_cast<const T*>(input);
  __nv_fp8_e4m3* codes = static_cast<__nv_fp8_e4m3*>(output_q);
  float* scales = static_cast<float*>(output_s);
  if (tokens >= kTokensOfWarps) {
    const unsigned blocks = static_cast<unsigned>((tokens + kWarps - 1) / kWarps);
    warp_a_token<T><<<blocks, kThreads, 0, stream>>>(in, codes, scales, tokens,
                                                     static_cast<int>(hidden));
  } else {
    block_a_token<T><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
        in, codes, scales, static_cast<int>(hidden));
  }
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s,
                                           int64_t tokens, int64_t hidden, int dtype,
                                           cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(input, output_q, output_s, tokens, hidden, stream);
    case 1: return launch<__half>(input, output_q, output_s, tokens, hidden, stream);
    case 2: return launch<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, stream);
    default: return cudaErrorInvalidValue;
  }
}
