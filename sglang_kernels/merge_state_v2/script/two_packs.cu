// merge_state_v2: two 16-byte packs per thread, a block apart, all loads issued before the first
// use. Weights by one exponential and one reciprocal, loads past L1, streaming stores.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kPackBytes = 16;
constexpr int kThreads = 128;
constexpr int kEach = 2;  // packs per thread
constexpr int kTile = kThreads * kEach;
constexpr float kLog2E = 1.4426950408889634f;
constexpr float kLn2 = 0.6931471805599453f;

struct Call {
  const uint4* v_a;
  const float* s_a;
  const uint4* v_b;
  const float* s_b;
  uint4* v_merged;
  float* s_merged;
};

struct Weights {
  float a;
  float b;
  float lse;
};

// An infinity of either sign says that a side is empty; if both are, their difference is NaN.
__device__ __forceinline__ Weights weights_of(float a, float b) {
  a = isinf(a) ? -INFINITY : a;
  b = isinf(b) ? -INFINITY : b;
  const float difference = a - b;
  float smaller, larger, logarithm;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(smaller) : "f"(-kLog2E * fabsf(difference)));
  const float total = 1.0f + smaller;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(larger) : "f"(total));
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(total));
  smaller *= larger;
  Weights weights;
  weights.a = difference < 0.0f ? smaller : larger;
  weights.b = difference < 0.0f ? larger : smaller;
  weights.lse = fmaf(kLn2, logarithm, fmaxf(a, b));
  return weights;
}

__device__ __forceinline__ float2 mixed(float2 a, float2 b, const Weights& weights) {
  return make_float2(fmaf(a.x, weights.a, b.x * weights.b), fmaf(a.y, weights.a, b.y * weights.b));
}

// One 32-bit word: a float, or a pair of 16-bit numbers.
template <typename T>
__device__ __forceinline__ uint32_t mixed(uint32_t a, uint32_t b, const Weights& weights);

template <>
__device__ __forceinline__ uint32_t mixed<float>(uint32_t a, uint32_t b, const Weights& weights) {
  return __float_as_uint(
      fmaf(__uint_as_float(a), weights.a, __uint_as_float(b) * weights.b));
}

template <>
__device__ __forceinline__ uint32_t mixed<__half>(uint32_t a, uint32_t b, const Weights& weights) {
  const __half2 pair = __float22half2_rn(
      mixed(__half22float2(*reinterpret_cast<const __half2*>(&a)),
            __half22float2(*reinterpret_cast<const __half2*>(&b)), weights));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <>
__device__ __forceinline__ uint32_t mixed<__nv_bfloat16>(uint32_t a, uint32_t b,
                                                         const Weights& weights) {
  const __nv_bfloat162 pair = __float22bfloat162_rn(
      mixed(make_float2(__uint_as_float(a << 16), __uint_as_float(a & 0xffff0000u)),
            make_float2(__uint_as_float(b << 16), __uint_as_float(b & 0xffff0000u)), weights));
  return *reinterpret_cast<const uint32_t*>(&pair);
}

template <typename T>
__device__ __forceinline__ uint4 mixed(const uint4& a, const uint4& b, const Weights& weights) {
  return make_uint4(mixed<T>(a.x, b.x, weights), mixed<T>(a.y, b.y, weights),
                    mixed<T>(a.z, b.z, weights), mixed<T>(a.w, b.w, weights));
}

__device__ __forceinline__ uint4 load(const uint4* address) {
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(address));
  return bits;
}

// Where the head of a pack is: by a shift, or by a division where its size is no power of two.
template <typename Index>
__device__ __forceinline__ Index head_of(Index index, unsigned packs, int shift) {
  return shift < 0 ? index / packs : index >> shift;
}

template <typename T, typename Index>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(const Call call, Index total, unsigned packs, int shift) {
  const Index start = static_cast<Index>(blockIdx.x) * (kThreads * kEach) + threadIdx.x;
  float s_a[kEach], s_b[kEach];
  uint4 a[kEach], b[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const Index index = start + i * kThreads;
    if (index < total) {
      const Index head = head_of(index, packs, shift);
      s_a[i] = __ldg(call.s_a + head);
      s_b[i] = __ldg(call.s_b + head);
      a[i] = load(call.v_a + index);
      b[i] = load(call.v_b + index);
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const Index index = start + i * kThreads;
    if (index < total) {
      const Index head = head_of(index, packs, shift);
      const Weights weights = weights_of(s_a[i], s_b[i]);
      __stcs(call.v_merged + index, mixed<T>(a[i], b[i], weights));
      if (index == head * packs) call.s_merged[head] = weights.lse;
    }
  }
}

template <typename T>
cudaError_t launch(const Call& call, int64_t heads, int64_t d, cudaStream_t stream) {
  const int64_t packs = d * static_cast<int64_t>(sizeof(T)) / kPackBytes;
  const int64_t total = heads * packs;
  int shift = 0;
  while ((int64_t{1} << shift) < packs) ++shift;
  if ((int64_t{1} << shift) != packs) shift = -1;
  const unsigned blocks = static_cast<unsigned>((total + kTile - 1) / kTile);
  const unsigned width = static_cast<unsigned>(packs);
  if (total <= INT32_MAX) {
    merge_kernel<T, unsigned>
        <<<blocks, kThreads, 0, stream>>>(call, static_cast<unsigned>(total), width, shift);
  } else {
    merge_kernel<T, int64_t><<<blocks, kThreads, 0, stream>>>(call, total, width, shift);
  }
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t merge_state_v2(const void* v_a, const void* s_a, const void* v_b,
                                      const void* s_b, void* v_merged, void* s_merged, int64_t n,
                                      int64_t h, int64_t d, int dtype, cudaStream_t stream) {
  const Call call{static_cast<const uint4*>(v_a), static_cast<const float*>(s_a),
                  static_cast<const uint4*>(v_b), static_cast<const float*>(s_b),
                  static_cast<uint4*>(v_merged),  static_cast<float*>(s_merged)};
  switch (dtype) {
    case 0: return launch<float>(call, n * h, d, stream);
    case 1: return launch<__half>(call, n * h, d, stream);
    case 2: return launch<__nv_bfloat16>(call, n * h, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
