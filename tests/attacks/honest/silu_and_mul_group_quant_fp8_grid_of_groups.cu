// Groups in x, tokens in z and y; 64 threads of two elements; maxima by __reduce_max_sync.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cstdint>

__global__ void pieces(const __nv_bfloat162* in, __nv_fp8x2_e4m3* q, float* s, int64_t tokens, bool columns) {
  __shared__ unsigned most[2];
  const int64_t token = blockIdx.z * 32768ll + blockIdx.y, groups = gridDim.x;
  if (token >= tokens) return;
  const int64_t at = blockIdx.x * 64 + threadIdx.x;
  const __nv_bfloat162 gate = in[token * 128 * groups + at], up = in[token * 128 * groups + 64 * groups + at];
  const float2 g = __bfloat1622float2(gate), u = __bfloat1622float2(up);
  const float a = u.x * g.x * __frcp_rn(1.f + __expf(-g.x)), b = u.y * g.y * __frcp_rn(1.f + __expf(-g.y));
  const unsigned mine = __float_as_uint(fmaxf(fabsf(a), fabsf(b)));
  const unsigned of_warp = __reduce_max_sync(~0u, mine);
  if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = of_warp;
  __syncthreads();
  const float m = fmaxf(__uint_as_float(max(most[0], most[1])), 1e-10f);
  q[token * 64 * groups + at] = __nv_fp8x2_e4m3(make_float2(a * (448.f / m), b * (448.f / m)));
  if (threadIdx.x == 0) s[columns ? blockIdx.x * ((tokens + 3) & ~3ll) + token : token * groups + blockIdx.x] = m / 448.f;
}
extern "C" cudaError_t silu_and_mul_group_quant_fp8(const void* input, void* output_q, void* output_s, void* activated, int64_t tokens, int64_t d, int64_t column_major, int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned(d / 128), unsigned(tokens < 32768 ? tokens : 32768), unsigned((tokens + 32767) / 32768));
  pieces<<<grid, 64, 0, stream>>>((const __nv_bfloat162*)input, (__nv_fp8x2_e4m3*)output_q, (float*)output_s, tokens, column_major != 0);
  return cudaGetLastError();
}
