// silu_and_mul: several blocks per row, two 16-byte vectors of gate and of up per thread.
// All loads of a thread are issued before the first use, so that more bytes are in flight. Full
// tiles need no tests; the last tile of a row may be partial and tests every vector.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kVectorBytes = 16;
constexpr int kThreads = 256;
constexpr int kVectors = 2;
constexpr int kTile = kThreads * kVectors;
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

template <typename T, bool kPartial>
__device__ __forceinline__ void process(uint4* row, const uint4* __restrict__ gate, int first,
                                        int vectors) {
  uint4 x[kVectors], y[kVectors];
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = first + i * kThreads;
    if (kPartial && column >= vectors) break;
    x[i] = __ldg(gate + column);
    y[i] = __ldg(gate + vectors + column);
  }
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int column = first + i * kThreads;
    if (kPartial && column >= vectors) break;
    row[column] = combine<T>(x[i], y[i]);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    silu_and_mul_kernel(uint4* __restrict__ out, const uint4* __restrict__ input, int vectors) {
  const int tile = static_cast<int>(blockIdx.y) * kTile;
  const int first = tile + static_cast<int>(threadIdx.x);
  const int64_t token = blockIdx.x;
  const uint4* gate = input + token * 2 * vectors;
  uint4* row = out + token * vectors;
  if (tile + kTile <= vectors) {
    process<T, false>(row, gate, first, vectors);
  } else {
    process<T, true>(row, gate, first, vectors);
  }
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int vectors = static_cast<int>(d * static_cast<int64_t>(sizeof(T)) / kVectorBytes);
  const dim3 grid(static_cast<unsigned>(tokens), (vectors + kTile - 1) / kTile);
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
