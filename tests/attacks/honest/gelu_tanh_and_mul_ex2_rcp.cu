// Vectors of 16 bytes, two rows' worth of blocks in y; ex2.approx and rcp.approx by hand.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cstdint>

__device__ __forceinline__ float sigmoid_by_parts(float t) {  // 1 / (1 + 2^t)
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(t));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
  return r;
}
template <typename T>
__global__ void __launch_bounds__(128) activate(uint4* __restrict__ out, const uint4* __restrict__ in, unsigned vectors) {
  const unsigned v = blockIdx.y * 128u + threadIdx.x;
  if (v >= vectors) return;
  const size_t row = blockIdx.x;
  const uint4 a = __ldcs(in + row * 2 * vectors + v), b = __ldcs(in + (row * 2 + 1) * vectors + v);
  uint4 c;
  const T *gate = (const T*)&a, *up = (const T*)&b;
  T* to = (T*)&c;
#pragma unroll
  for (unsigned i = 0; i < 16 / sizeof(T); ++i) {
    const float g = float(gate[i]), cubic = fmaf(g * g, -0.10294324f, -2.3022082f);
    to[i] = T(g * sigmoid_by_parts(g * cubic) * float(up[i]));
  }
  __stcs(out + row * vectors + v, c);
}
extern "C" cudaError_t gelu_tanh_and_mul(void* out, const void* input, int64_t tokens, int64_t d, int dtype, cudaStream_t stream) {
  const unsigned vectors = unsigned(d * (dtype == 0 ? 4 : 2) / 16);
  const dim3 grid(unsigned(tokens), (vectors + 127) / 128);
  switch (dtype) {
    case 0: activate<float><<<grid, 128, 0, stream>>>((uint4*)out, (const uint4*)input, vectors); break;
    case 1: activate<__half><<<grid, 128, 0, stream>>>((uint4*)out, (const uint4*)input, vectors); break;
    case 2: activate<__nv_bfloat16><<<grid, 128, 0, stream>>>((uint4*)out, (const uint4*)input, vectors); break;
  }
  return cudaGetLastError();
}
