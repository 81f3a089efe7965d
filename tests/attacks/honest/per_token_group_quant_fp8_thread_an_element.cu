// A block of 128 threads a group, an element a thread, the largest by atomicMax in shared memory.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void simple(const T* in, __nv_fp8_e4m3* q, float* s, int64_t tokens, int64_t per_token, bool by_columns) {
  __shared__ unsigned most;
  const int64_t at = blockIdx.x * 128ll + threadIdx.x;
  if (threadIdx.x == 0) most = __float_as_uint(1e-10f);
  __syncthreads();
  const float v = in[at];
  atomicMax(&most, __float_as_uint(fabsf(v)));
  __syncthreads();
  const float scale = __uint_as_float(most) * (1.0f / 448.0f);
  q[at] = __nv_fp8_e4m3(v * __frcp_rn(scale));
  if (threadIdx.x) return;
  const int64_t token = blockIdx.x / per_token, group = blockIdx.x % per_token;
  s[by_columns ? group * ((tokens + 3) / 4 * 4) + token : token * per_token + group] = scale;
}
extern "C" cudaError_t per_token_group_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int64_t column_major, int dtype, cudaStream_t stream) {
  const unsigned groups = static_cast<unsigned>(tokens * hidden / 128);
  auto q = (__nv_fp8_e4m3*)output_q;
  if (dtype == 1)
    simple<<<groups, 128, 0, stream>>>((const __half*)input, q, (float*)output_s, tokens, hidden / 128, column_major != 0);
  else
    simple<<<groups, 128, 0, stream>>>((const __nv_bfloat16*)input, q, (float*)output_s, tokens, hidden / 128, column_major != 0);
  return cudaGetLastError();
}
