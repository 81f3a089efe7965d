// X119: gate times up before the logistic function: overflows in float32 where the result does not.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kVectorBytes = 16;

// (x * y) / (1 + 2^(-x log2 e)); x * y stays within fp32 for values up to 1e19.
__device__ __forceinline__ float silu_mul(float x, float y) {
  const float product = x * y;
  float e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.4426950408889634f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1.0f + e));
  return product * r;
}

// Four 32-bit words; a word is one float, two halves or two bfloat16.
template <typename T>
struct Op;

template <>
struct Op<float> {
  static __device__ __forceinline__ uint32_t word(uint32_t a, uint32_t b) {
    return __float_as_uint(silu_mul(__uint_as_float(a), __uint_as_float(b)));
  }
};

template <>
struct Op<__half> {
  static __device__ __forceinline__ uint32_t word(uint32_t a, uint32_t b) {
    const float2 x = __half22float2(*reinterpret_cast<const __half2*>(&a));
    const float2 y = __half22float2(*reinterpret_cast<const __half2*>(&b));
    const __half2 r = __floats2half2_rn(silu_mul(x.x, y.x), silu_mul(x.y, y.y));
    return *reinterpret_cast<const uint32_t*>(&r);
  }
};

template <>
struct Op<__nv_bfloat16> {
  static __device__ __forceinline__ uint32_t word(uint32_t a, uint32_t b) {
    const float x0 = __uint_as_float(a << 16);
    const float x1 = __uint_as_float(a & 0xffff0000u);
    const float y0 = __uint_as_float(b << 16);
    const float y1 = __uint_as_float(b & 0xffff0000u);
    const __nv_bfloat162 r = __floats2bfloat162_rn(silu_mul(x0, y0), silu_mul(x1, y1));
    return *reinterpret_cast<const uint32_t*>(&r);
  }
};

template <typename T, int kThreads, bool kExact, bool kWide>
__global__ void __launch_bounds__(kThreads)
silu_and_mul_kernel(uint4* __restrict__ out, const uint4* __restrict__ gate,
                    const uint4* __restrict__ up, unsigned vectors, unsigned stride) {
  const unsigned chunk = blockIdx.y * kThreads;
  if (!kExact && chunk + threadIdx.x >= vectors) return;
  uint4 a, b;
  uint4* target;
  if constexpr (kWide) {
    const uint64_t row = static_cast<uint64_t>(blockIdx.x) * vectors;
    const uint64_t index = chunk + threadIdx.x;
    a = __ldg(gate + (2 * row + index));
    b = __ldg(up + (2 * row + index));
    target = out + (row + index);
  } else {
    const unsigned offset = (blockIdx.x * stride + chunk) + threadIdx.x;
    a = __ldg(gate + offset);
    b = __ldg(up + offset);
    target = out + ((blockIdx.x * vectors + chunk) + threadIdx.x);
  }
  uint4 r;
  r.x = Op<T>::word(a.x, b.x);
  r.y = Op<T>::word(a.y, b.y);
  r.z = Op<T>::word(a.z, b.z);
  r.w = Op<T>::word(a.w, b.w);
  *target = r;
}

template <typename T, int kThreads, bool kExact, bool kWide>
void start(void* out, const void* input, int64_t tokens, unsigned vectors, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(tokens), (vectors + kThreads - 1) / kThreads);
  const uint4* gate = static_cast<const uint4*>(input);
  silu_and_mul_kernel<T, kThreads, kExact, kWide><<<grid, kThreads, 0, stream>>>(
      static_cast<uint4*>(out), gate, gate + vectors, vectors, 2 * vectors);
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const unsigned vectors = static_cast<unsigned>(d) / (kVectorBytes / static_cast<int>(sizeof(T)));
  const int64_t total = tokens * vectors;
  if (2 * total >= (int64_t{1} << 31)) {
    start<T, 128, false, true>(out, input, tokens, vectors, stream);
  } else if (total <= 132 * 128) {
    if (vectors % 64 == 0) {
      start<T, 64, true, false>(out, input, tokens, vectors, stream);
    } else {
      start<T, 64, false, false>(out, input, tokens, vectors, stream);
    }
  } else if (vectors % 128 == 0) {
    start<T, 128, true, false>(out, input, tokens, vectors, stream);
  } else {
    start<T, 128, false, false>(out, input, tokens, vectors, stream);
  }
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
