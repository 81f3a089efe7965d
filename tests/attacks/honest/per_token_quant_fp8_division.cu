// Divides by the scale instead of multiplying by its reciprocal; a block of 96 threads.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void divide(const T* in, __nv_fp8_storage_t* q, float* s, int64_t hidden) {
  __shared__ float best[96];
  const T* row = in + blockIdx.x * hidden;
  float m = 0;
  for (int64_t i = threadIdx.x; i < hidden; i += 96) m = fmaxf(m, fabsf(float(row[i])));
  best[threadIdx.x] = m;
  __syncthreads();
  if (threadIdx.x < 32) {
    m = fmaxf(fmaxf(best[threadIdx.x], best[threadIdx.x + 32]), best[threadIdx.x + 64]);
#pragma unroll
    for (int d = 1; d < 32; d *= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    if (threadIdx.x == 0) best[0] = s[blockIdx.x] = m / 448.0f;
  }
  __syncthreads();
  const float scale = best[0];
  for (int64_t i = threadIdx.x; i < hidden; i += 96) {
    float v = scale > 0 ? __fdiv_rn(float(row[i]), scale) : float(row[i]) * 0.0f;
    v = fmaxf(fminf(v, 448.0f), -448.0f);
    q[blockIdx.x * hidden + i] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
  }
}
extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int dtype, cudaStream_t stream) {
  auto* q = static_cast<__nv_fp8_storage_t*>(output_q);
  auto* s = static_cast<float*>(output_s);
  if (dtype == 0) divide<<<unsigned(tokens), 96, 0, stream>>>(static_cast<const float*>(input), q, s, hidden);
  if (dtype == 1) divide<<<unsigned(tokens), 96, 0, stream>>>(static_cast<const __half*>(input), q, s, hidden);
  if (dtype == 2) divide<<<unsigned(tokens), 96, 0, stream>>>(static_cast<const __nv_bfloat16*>(input), q, s, hidden);
  return cudaGetLastError();
}
