// A block a token: its warps take groups in turns; templates for both layouts; half2 maxima.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cstdint>

__device__ __forceinline__ float2 wide(__half2 v) { return __half22float2(v); }
__device__ __forceinline__ float2 wide(__nv_bfloat162 v) { return __bfloat1622float2(v); }
template <typename P, bool kColumns>
__global__ void rows(const P* in, __nv_fp8x2_storage_t* q, float* s, int groups, int64_t tokens) {
  const int64_t token = blockIdx.x;
  const int lane = threadIdx.x & 31, warps = blockDim.x >> 5;
  for (int g = threadIdx.x >> 5; g < groups; g += warps) {
    const int64_t base = (token * groups + g) * 64;
    const P a = in[base + lane], b = in[base + 32 + lane];
    const P two = __hmax2(__habs2(a), __habs2(b));
    const float2 m2 = wide(two);
    float m = fmaxf(fmaxf(m2.x, m2.y), 1e-10f);
    for (int d = 1; d < 32; d += d) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    const float k = __fdividef(448.0f, m);
    const float2 x = wide(a), y = wide(b);
    q[base + lane] = __nv_cvt_float2_to_fp8x2(make_float2(x.x * k, x.y * k), __NV_SATFINITE, __NV_E4M3);
    q[base + 32 + lane] = __nv_cvt_float2_to_fp8x2(make_float2(y.x * k, y.y * k), __NV_SATFINITE, __NV_E4M3);
    if (lane == 0) s[kColumns ? g * ((tokens + 3) / 4 * 4) + token : token * groups + g] = m * (1.f / 448.f);
  }
}
template <typename P>
void go(const void* in, void* q, void* s, int64_t tokens, int64_t hidden, bool columns, cudaStream_t stream) {
  const int groups = int(hidden / 128), warps = groups < 16 ? groups : 16;
  const auto kernel = columns ? rows<P, true> : rows<P, false>;
  kernel<<<unsigned(tokens), 32 * warps, 0, stream>>>((const P*)in, (__nv_fp8x2_storage_t*)q, (float*)s, groups, tokens);
}
extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int64_t column_major, int dtype, cudaStream_t stream) {
  if (dtype == 1) go<__half2>(input, output_q, output_s, tokens, hidden, column_major, stream);
  if (dtype == 2) go<__nv_bfloat162>(input, output_q, output_s, tokens, hidden, column_major, stream);
  return cudaGetLastError();
}
