// Rows of up to 8192 elements stay in the registers of 256 threads, others are read twice.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace {
struct alignas(4) Four { __nv_fp8_e4m3 code[4]; };
template <typename T> struct alignas(4 * sizeof(T)) Quad { T v[4]; };
__device__ float block_max(float v) {
  __shared__ float seen[8];
  for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  if ((threadIdx.x & 31) == 0) seen[threadIdx.x >> 5] = v;
  __syncthreads();
  v = seen[threadIdx.x & 7];
  for (int d = 4; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  return v;
}
template <typename T>
__device__ Four coded(const Quad<T>& x, float inverse) {
  Four f;
#pragma unroll
  for (int i = 0; i < 4; ++i) f.code[i] = __nv_fp8_e4m3(fmaxf(fminf(static_cast<float>(x.v[i]) * inverse, 448.f), -448.f));
  return f;
}
template <typename T>
__device__ float magnitude(const Quad<T>& x) {
  float m = 0.f;
#pragma unroll
  for (int i = 0; i < 4; ++i) m = fmaxf(m, fabsf(static_cast<float>(x.v[i])));
  return m;
}
template <typename T, int kKept>
__global__ __launch_bounds__(256) void row_a_block(const Quad<T>* x, Four* q, float* s, int quads) {
  x += int64_t(blockIdx.x) * quads;
  q += int64_t(blockIdx.x) * quads;
  Quad<T> kept[kKept > 0 ? kKept : 1];
  float m = 0.f;
  if constexpr (kKept > 0) {
#pragma unroll
    for (int k = 0; k < kKept; ++k) {
      const int at = k * 256 + threadIdx.x;
      if (at < quads) m = fmaxf(m, magnitude(kept[k] = x[at]));
    }
  } else {
    for (int at = threadIdx.x; at < quads; at += 256) m = fmaxf(m, magnitude(x[at]));
  }
  const float scale = block_max(m) / 448.f, inverse = scale > 0.f ? 1.f / scale : 0.f;
  if (threadIdx.x == 0) s[blockIdx.x] = scale;
  if constexpr (kKept > 0) {
#pragma unroll
    for (int k = 0; k < kKept; ++k)
      if (const int at = k * 256 + threadIdx.x; at < quads) q[at] = coded(kept[k], inverse);
  } else {
    for (int at = threadIdx.x; at < quads; at += 256) q[at] = coded(x[at], inverse);
  }
}
template <typename T>
cudaError_t launch(const void* x, void* q, void* s, int64_t tokens, int64_t hidden, cudaStream_t stream) {
  const int quads = int(hidden / 4);
  const auto kernel = quads <= 512 ? row_a_block<T, 2> : quads <= 2048 ? row_a_block<T, 8> : row_a_block<T, 0>;
  kernel<<<unsigned(tokens), 256, 0, stream>>>((const Quad<T>*)x, (Four*)q, (float*)s, quads);
  return cudaGetLastError();
}
}  // namespace
extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden, int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(input, output_q, output_s, tokens, hidden, stream);
    case 1: return launch<__half>(input, output_q, output_s, tokens, hidden, stream);
    default: return launch<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, stream);
  }
}
