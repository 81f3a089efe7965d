// Fused, a token a block, with the activation rounded to bfloat16 as the two kernels do; 16 lanes a group.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cstdint>

__global__ __launch_bounds__(256) void token_a_block(const __nv_bfloat16* __restrict__ in, __nv_fp8_storage_t* __restrict__ q, float* __restrict__ s, int d, int64_t step0, int64_t step1) {
  const int64_t token = blockIdx.x;
  const int part = threadIdx.x % 16, groups = d / 128;
  for (int first = 0; first < groups; first += 16) {
    const int g = first + threadIdx.x / 16;
    float v[8], most = 1e-10f;
    if (g < groups) {
      const uint4 gate = *reinterpret_cast<const uint4*>(in + token * 2 * d + g * 128 + part * 8);
      const uint4 up = *reinterpret_cast<const uint4*>(in + token * 2 * d + d + g * 128 + part * 8);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const float a = __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(&gate)[i]);
        const float b = __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(&up)[i]);
        v[i] = __bfloat162float(__float2bfloat16_rn(a * (1.0f / (1.0f + expf(-a))) * b));
        most = fmaxf(most, fabsf(v[i]));
      }
    }
#pragma unroll
    for (int lanes = 1; lanes < 16; lanes *= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, lanes, 16));
    if (g >= groups) continue;
    const float scale = most / 448.0f;
    if (part == 0) s[token * step0 + g * step1] = scale;
    uint2 word;
    auto* codes = reinterpret_cast<__nv_fp8_storage_t*>(&word);
#pragma unroll
    for (int i = 0; i < 8; ++i) codes[i] = __nv_cvt_float_to_fp8(__fdividef(v[i], scale), __NV_SATFINITE, __NV_E4M3);
    *reinterpret_cast<uint2*>(q + token * d + g * 128 + part * 8) = word;
  }
}
extern "C" cudaError_t silu_and_mul_group_quant_fp8(const void* input, void* output_q, void* output_s, void* activated, int64_t tokens, int64_t d, int64_t column_major, int dtype, cudaStream_t stream) {
  const int64_t column = 4 * ((tokens + 3) / 4);
  token_a_block<<<unsigned(tokens), 256, 0, stream>>>((const __nv_bfloat16*)input, (__nv_fp8_storage_t*)output_q, (float*)output_s, int(d), column_major ? 1 : d / 128, column_major ? column : 1);
  return cudaGetLastError();
}
