// silu_and_mul: several blocks per row, one 16-byte vector of gate and of up per thread. Tokens lie
// on grid.x, which may exceed 65535; pieces of a row lie on grid.y. 16-bit types are converted in
// pairs; silu takes two special-function instructions, a power of two and a reciprocal.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kVectorBytes = 16;
constexpr int kThreads = 256;
constexpr float kLog2E = 1.4426950408889634f;

__device__ __forceinline__ float silu(float value) {
  float power, reciprocal;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-kLog2E * value));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(1.0f + power));
  return value * reciprocal;
}

__device__ __forceinline__ float2 silu_and_mul(float2 gate, float2 up) {
  return make_float2(silu(gate.x) * up.x, silu(gate.y) * up.y);
}

// One 32-bit word: a float, or a pair of 16-bit numbers.
template <typename T>
__device__ __forceinline__ uint32_t combine(uint32_t gate, uint32_t up);

template <>
__device__ __forceinline__ uint32_t combine<float>(uint32_t gate, uint32_t up) {
  return __float_as_uint(silu(__uint_as_float(gate)) * __uint_as_float(up));
}

template <>
__device__ __forceinline__ uint32_t combine<__half>(uint32_t gate, uint32_t up) {
  const __half2 pair = __float22half2_rn(
      silu_and_mul(__half22float2(*reinterpret_cast<const __half2*>(&gate)),
                   __half22float2(*reinterpret_cast<const __half2*>(&up))));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <>
__device__ __forceinline__ uint32_t combine<__nv_bfloat16>(uint32_t gate, uint32_t up) {
  const __nv_bfloat162 pair = __float22bfloat162_rn(
      silu_and_mul(__bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&gate)),
                   __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&up))));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <typename T>
__device__ __forceinline__ uint4 combine(const uint4& gate, const uint4& up) {
  return make_uint4(combine<T>(gate.x, up.x), combine<T>(gate.y, up.y),
                    combine<T>(gate.z, up.z), combine<T>(gate.w, up.w));
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    silu_and_mul_kernel(uint4* __restrict__ out, const uint4* __restrict__ input, int vectors) {
  const int column = static_cast<int>(blockIdx.y * kThreads + threadIdx.x);
  if (column >= vectors) return;
  const int64_t token = blockIdx.x;
  const uint4* gate = input + token * 2 * vectors + column;
  const uint4 x = __ldg(gate);
  const uint4 y = __ldg(gate + vectors);
  out[token * vectors + column] = combine<T>(x, y);
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int vectors = static_cast<int>(d * static_cast<int64_t>(sizeof(T)) / kVectorBytes);
  const dim3 grid(static_cast<unsigned>(tokens), (vectors + kThreads - 1) / kThreads);
  silu_and_mul_kernel<T><<<grid, kThreads, 0, stream>>>(
      static_cast<uint4*>(out), static_cast<const uint4*>(input), vectors);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
