// The maximum by the bits of the magnitudes, which ascend as they do; a warp a token, one element a
// lane at a time.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__global__ void by_bits(const T* __restrict__ input, __nv_fp8_storage_t* __restrict__ output_q,
                        float* __restrict__ output_s, int64_t tokens, int hidden) {
  const int64_t token = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (token >= tokens) return;
  const int lane = threadIdx.x % 32;
  const T* row = input + token * hidden;
  unsigned bits = 0;
  for (int column = lane; column < hidden; column += 32) {
    const unsigned own = __float_as_uint(to_float(row[column])) & 0x7fffffffu;
    bits = own > 0x7f800000u ? bits : max(bits, own);
  }
  bits = __reduce_max_sync(0xffffffffu, bits);
  const float largest = __uint_as_float(bits);
  const float scale = largest / 448.0f;
  if (lane == 0) output_s[token] = scale;
  const float times = scale == 0.0f ? 0.0f : 1.0f / scale;
  for (int column = lane; column < hidden; column += 32) {
    const float value = fmaxf(fminf(to_float(row[column]) * times, 448.0f), -448.0f);
    output_q[token * hidden + column] = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
  }
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   cudaStream_t stream) {
  by_bits<T><<<static_cast<unsigned>((tokens + 1) / 2), 64, 0, stream>>>(
      static_cast<const T*>(input), static_cast<__nv_fp8_storage_t*>(output_q),
      static_cast<float*>(output_s), tokens, static_cast<int>(hidden));
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
