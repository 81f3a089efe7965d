// The scales in a launch of their own; the codes in a second one, four elements a thread of a flat grid.

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
__global__ void scales(const T* __restrict__ input, float* __restrict__ output_s, int64_t tokens,
                       int hidden) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * 4 + threadIdx.y;
  if (token >= tokens) return;
  float largest = 0.0f;
  for (int column = threadIdx.x; column < hidden; column += 32) {
    largest = fmaxf(largest, fabsf(to_float(input[token * hidden + column])));
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    largest = fmaxf(largest, __shfl_down_sync(0xffffffffu, largest, lanes));
  }
  if (threadIdx.x == 0) output_s[token] = largest / 448.0f;
}

template <typename T>
__global__ void codes(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                      const float* __restrict__ output_s, int64_t count, int hidden) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) * 4;
  if (first >= count) return;
  const float scale = output_s[first / hidden];
  const float inverse = scale != 0.0f ? __frcp_rn(scale) : 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float value = to_float(input[first + i]) * inverse;
    output_q[first + i] = __nv_fp8_e4m3(fmaxf(fminf(value, 448.0f), -448.0f));
  }
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   cudaStream_t stream) {
  const T* in = static_cast<const T*>(input);
  float* of_tokens = static_cast<float*>(output_s);
  scales<T><<<static_cast<unsigned>((tokens + 3) / 4), dim3(32, 4), 0, stream>>>(
      in, of_tokens, tokens, static_cast<int>(hidden));
  const int64_t count = tokens * hidden;
  codes<T><<<static_cast<unsigned>((count + 1023) / 1024), 256, 0, stream>>>(
      in, static_cast<__nv_fp8_e4m3*>(output_q), of_tokens, count, static_cast<int>(hidden));
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
