// A warp a group, four elements a lane as 8 bytes, codes as one word.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void of_warps(const uint2* in, uint32_t* q, float* s, int64_t groups, int64_t per_token, int64_t by_token, int64_t by_group) {
  const int64_t group = blockIdx.x * 8ll + threadIdx.x / 32;
  if (group >= groups) return;
  const int lane = threadIdx.x % 32;
  const uint2 word = in[group * 32 + lane];
  const T* x = reinterpret_cast<const T*>(&word);
  float v[4], m = 1e-10f;
#pragma unroll
  for (int i = 0; i < 4; ++i) m = fmaxf(m, fabsf(v[i] = float(x[i])));
#pragma unroll
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
  const float inverse = 448.0f / m;
  uint32_t codes = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) codes |= uint32_t(__nv_cvt_float_to_fp8(v[i] * inverse, __NV_SATFINITE, __NV_E4M3)) << 8 * i;
  q[group * 32 + lane] = codes;
  if (lane == 0) s[group / per_token * by_token + group % per_token * by_group] = m / 448.0f;
}
extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int64_t column_major, int dtype, cudaStream_t stream) {
  const int64_t per_token = hidden / 128, groups = tokens * per_token;
  const int64_t by_token = column_major ? 1 : per_token, by_group = column_major ? (tokens + 3) / 4 * 4 : 1;
  const unsigned blocks = unsigned((groups + 7) / 8);
  if (dtype == 1)
    of_warps<__half><<<blocks, 256, 0, stream>>>((const uint2*)input, (uint32_t*)output_q, (float*)output_s, groups, per_token, by_token, by_group);
  else
    of_warps<__nv_bfloat16><<<blocks, 256, 0, stream>>>((const uint2*)input, (uint32_t*)output_q, (float*)output_s, groups, per_token, by_token, by_group);
  return cudaGetLastError();
}
