// Quantisation to MXFP8: a warp a group, a lane an element, the maximum by shuffles; scales as __nv_fp8_e8m0.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void quantize(__nv_fp8_e4m3* codes, uint8_t* scales, const T* input, int64_t per_token,
                         int64_t stride) {
  const int64_t token = blockIdx.x, lane = threadIdx.x % 32;
  for (int64_t group = threadIdx.x / 32; group < per_token; group += blockDim.x / 32) {
    const float x = float(input[token * stride + group * 32 + lane]);
    float largest = fabsf(x);
    for (int other = 16; other > 0; other /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, other));
    }
    int exponent;
    const float significand = frexpf(largest, &exponent);  // 0.5 to below 1
    exponent += significand > 0.875f ? -8 : -9;
    if (largest == 0.0f || exponent < -127) exponent = -127;
    if (lane == 0) scales[token * per_token + group] = uint8_t(exponent + 127);
    codes[(token * per_token + group) * 32 + lane] = __nv_fp8_e4m3(ldexpf(x, -exponent));
  }
}

extern "C" cudaError_t mx_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens,
                                    int64_t hidden, int64_t input_stride, int dtype, cudaStream_t stream) {
  __nv_fp8_e4m3* codes = static_cast<__nv_fp8_e4m3*>(output_q);
  uint8_t* scales = static_cast<uint8_t*>(output_s);
  const unsigned blocks = unsigned(tokens);
  if (dtype == 0)
    quantize<<<blocks, 128, 0, stream>>>(codes, scales, static_cast<const float*>(input), hidden / 32,
                                         input_stride);
  else if (dtype == 1)
    quantize<<<blocks, 128, 0, stream>>>(codes, scales, static_cast<const __half*>(input), hidden / 32,
                                         input_stride);
  else
    quantize<<<blocks, 128, 0, stream>>>(codes, scales, static_cast<const __nv_bfloat16*>(input), hidden / 32,
                                         input_stride);
  return cudaGetLastError();
}
