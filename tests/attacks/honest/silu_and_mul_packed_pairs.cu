// Pairs of 16-bit values, multiplied in fp32; a helper that the host could call as well, with PTX
// of its own on the device.
#include <cmath>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

__host__ __device__ __forceinline__ float over_one_plus_exp(float v) {
#ifdef __CUDA_ARCH__
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(v * -1.4426950408889634f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
  return v * inverse;
#else
  return v / (1.0f + std::exp(-v));
#endif
}

__device__ float2 widened(__half2 pair) { return __half22float2(pair); }
__device__ float2 widened(__nv_bfloat162 pair) { return __bfloat1622float2(pair); }
__device__ float2 widened(float2 pair) { return pair; }
__device__ void narrow(float2 from, __half2& to) { to = __float22half2_rn(from); }
__device__ void narrow(float2 from, __nv_bfloat162& to) { to = __float22bfloat162_rn(from); }
__device__ void narrow(float2 from, float2& to) { to = from; }

template <typename Pair>
__global__ void gate_pairs(Pair* __restrict__ out, const Pair* __restrict__ input, int pairs) {
  const Pair* gate = input + int64_t(blockIdx.x) * 2 * pairs;
  const Pair* up = gate + pairs;
  Pair* to = out + int64_t(blockIdx.x) * pairs;
  for (int p = threadIdx.x; p < pairs; p += blockDim.x) {
    const float2 g = widened(gate[p]), u = widened(up[p]);
    narrow({over_one_plus_exp(g.x) * u.x, over_one_plus_exp(g.y) * u.y}, to[p]);
  }
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  const int pairs = int(d / 2);
  const unsigned blocks = unsigned(tokens), threads = pairs < 512 ? 128 : 512;
  if (dtype == 0)
    gate_pairs<<<blocks, threads, 0, stream>>>((float2*)out, (const float2*)input, pairs);
  else if (dtype == 1)
    gate_pairs<<<blocks, threads, 0, stream>>>((__half2*)out, (const __half2*)input, pairs);
  else
    gate_pairs<<<blocks, threads, 0, stream>>>((__nv_bfloat162*)out, (const __nv_bfloat162*)input, pairs);
  return cudaGetLastError();
}
