// Activations as bfloat16 in the workspace by a flat kernel, then scales and codes by a thread a 16-byte piece with shared maxima.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

__global__ void activate(const __nv_bfloat162* in, __nv_bfloat162* out, int64_t pairs, int64_t half) {
  const int64_t i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= pairs) return;
  const int64_t row = i / half, at = i % half;
  const float2 g = __bfloat1622float2(in[row * 2 * half + at]), u = __bfloat1622float2(in[row * 2 * half + half + at]);
  out[i] = __floats2bfloat162_rn(g.x * u.x / (1.f + exp2f(-1.442695041f * g.x)), g.y * u.y / (1.f + exp2f(-1.442695041f * g.y)));
}
__global__ __launch_bounds__(128) void quant(const uint4* in, uint2* q, float* s, int64_t groups, int64_t per_row, int64_t tokens, bool columns) {
  __shared__ float seen[8][16];
  const int which = threadIdx.x / 16, part = threadIdx.x % 16;
  const int64_t g = blockIdx.x * 8ll + which;
  const uint4 word = g < groups ? in[g * 16 + part] : make_uint4(0, 0, 0, 0);
  const auto* v = reinterpret_cast<const __nv_bfloat16*>(&word);
  float m = 0;
  for (int i = 0; i < 8; ++i) m = fmaxf(m, fabsf(float(v[i])));
  seen[which][part] = m;
  __syncthreads();
  if (g >= groups) return;
  m = 1e-10f;
  for (int i = 0; i < 16; ++i) m = fmaxf(m, seen[which][(part + i) % 16]);
  const float scale = m * (1.0f / 448.0f);
  uint2 codes;
  for (int i = 0; i < 8; ++i) reinterpret_cast<__nv_fp8_e4m3*>(&codes)[i] = __nv_fp8_e4m3(float(v[i]) / scale);
  q[g * 16 + part] = codes;
  if (!part) s[columns ? g % per_row * ((tokens + 3) / 4 * 4) + g / per_row : g] = scale;
}
extern "C" cudaError_t silu_and_mul_group_quant_fp8(const void* input, void* output_q, void* output_s, void* activated, int64_t tokens, int64_t d, int64_t column_major, int dtype, cudaStream_t stream) {
  const int64_t pairs = tokens * d / 2, groups = tokens * d / 128;
  activate<<<unsigned((pairs + 255) / 256), 256, 0, stream>>>((const __nv_bfloat162*)input, (__nv_bfloat162*)activated, pairs, d / 2);
  quant<<<unsigned((groups + 7) / 8), 128, 0, stream>>>((const uint4*)activated, (uint2*)output_q, (float*)output_s, groups, d / 128, tokens, column_major == 1);
  return cudaGetLastError();
}
