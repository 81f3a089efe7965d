// A warp a row always; the largest by __reduce_max_sync on bits; codes by intrinsics, byte by byte.
#include <cuda_fp8.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>

template <typename T>
__global__ __launch_bounds__(128) void quant(const T* __restrict__ in, unsigned char* __restrict__ q, float* __restrict__ s, int64_t tokens, int hidden) {
  const int64_t row = blockIdx.x * 4ll + threadIdx.y;
  if (row >= tokens) return;
  unsigned bits = 0;
  for (int c = threadIdx.x; c < hidden; c += 32) {
    const float v = float(in[row * hidden + c]);
    if (v == v) bits = max(bits, __float_as_uint(v) & 0x7fffffffu);
  }
  const float largest = __uint_as_float(__reduce_max_sync(0xffffffffu, bits));
  const float scale = largest / 448.0f;
  if (threadIdx.x == 0) s[row] = scale;
  const float inverse = scale > 0.0f ? __frcp_rn(scale) : 0.0f;
  for (int c = threadIdx.x; c < hidden; c += 32) {
    float v = float(in[row * hidden + c]) * inverse;
    v = v != v ? 448.0f : v;
    q[row * hidden + c] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  }
}
extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned((tokens + 3) / 4)), block(32, 4);
  if (dtype == 0)
    quant<<<grid, block, 0, stream>>>((const float*)input, (unsigned char*)output_q, (float*)output_s, tokens, int(hidden));
  else if (dtype == 1)
    quant<<<grid, block, 0, stream>>>((const __half*)input, (unsigned char*)output_q, (float*)output_s, tokens, int(hidden));
  else
    quant<<<grid, block, 0, stream>>>((const __nv_bfloat16*)input, (unsigned char*)output_q, (float*)output_s, tokens, int(hidden));
  return cudaGetLastError();
}
