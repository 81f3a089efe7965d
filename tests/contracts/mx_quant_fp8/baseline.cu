// Quantisation to MXFP8 after the OCP specification of MX formats: a thread reads a group of 32 twice.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kGroup = 32;
constexpr int kThreads = 128;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

// The least power of two, as its exponent plus 127, that is not below value / 448 = value / (1.75 * 2^8).
__device__ __forceinline__ int code_of_scale(float value) {
  const uint32_t bits = __float_as_uint(value);
  const int above = (bits & 0x7fffffu) > 0x600000u ? 1 : 0;
  return max(0, int(bits >> 23) - 8 + above);
}

// 2^(127 - code): for code 254 it is the greatest denormal power.
__device__ __forceinline__ float inverse_of(int code) {
  return code < 254 ? __uint_as_float(uint32_t(254 - code) << 23) : 0x1p-127f;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) quantize(__nv_fp8_e4m3* codes, uint8_t* scales, const T* input,
                                                     int64_t groups, int64_t per_token, int64_t stride) {
  const int64_t group = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (group >= groups) return;
  const T* source = input + group / per_token * stride + group % per_token * kGroup;
  float largest = 0.0f;
  for (int i = 0; i < kGroup; ++i) largest = fmaxf(largest, fabsf(to_float(source[i])));
  const int code = code_of_scale(largest);
  const float inverse = inverse_of(code);
  scales[group] = uint8_t(code);
  for (int i = 0; i < kGroup; ++i) codes[group * kGroup + i] = __nv_fp8_e4m3(to_float(source[i]) * inverse);
}

template <typename T>
cudaError_t run(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                int64_t stride, cudaStream_t stream) {
  const int64_t groups = tokens * (hidden / kGroup);
  quantize<T><<<unsigned((groups + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
      static_cast<__nv_fp8_e4m3*>(output_q), static_cast<uint8_t*>(output_s), static_cast<const T*>(input),
      groups, hidden / kGroup, stride);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t mx_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens,
                                    int64_t hidden, int64_t input_stride, int dtype, cudaStream_t stream) {
  if (dtype == 0) return run<float>(input, output_q, output_s, tokens, hidden, input_stride, stream);
  if (dtype == 1) return run<__half>(input, output_q, output_s, tokens, hidden, input_stride, stream);
  return run<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, input_stride, stream);
}
