// Fused: a warp a group, four elements a lane, nothing rounded in between.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

__global__ void fused(const uint2* in, uint32_t* q, float* s, int64_t groups, int64_t per_row, int64_t token_step, int64_t group_step) {
  const int64_t g = blockIdx.x * 4ll + threadIdx.x / 32;
  if (g >= groups) return;
  const int lane = threadIdx.x % 32;
  const int64_t token = g / per_row, of_row = g % per_row;
  const uint2 a = in[(token * 2 * per_row + of_row) * 32 + lane], b = in[((token * 2 + 1) * per_row + of_row) * 32 + lane];
  const auto* x = reinterpret_cast<const __nv_bfloat16*>(&a);
  const auto* y = reinterpret_cast<const __nv_bfloat16*>(&b);
  float v[4], m = 1e-10f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float t = float(x[i]);
    v[i] = t / (1.f + __expf(-t)) * float(y[i]);
    m = fmaxf(m, fabsf(v[i]));
  }
  for (int d = 16; d; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
  const float k = 448.f / m;
  uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) word |= uint32_t(__nv_fp8_e4m3(v[i] * k).__x) << 8 * i;
  q[g * 32 + lane] = word;
  if (lane == 0) s[token * token_step + of_row * group_step] = m / 448.f;
}
extern "C" cudaError_t silu_and_mul_group_quant_fp8(const void* input, void* output_q, void* output_s, void* activated, int64_t tokens, int64_t d, int64_t column_major, int dtype, cudaStream_t stream) {
  const int64_t per_row = d / 128, groups = tokens * per_row;
  fused<<<unsigned((groups + 3) / 4), 128, 0, stream>>>((const uint2*)input, (uint32_t*)output_q, (float*)output_s, groups, per_row, column_major ? 1 : per_row, column_major ? (tokens + 3) / 4 * 4 : 1);
  return cudaGetLastError();
}
