// merge_state_v2: one thread per 16-byte pack, nothing computed that need not be. Where a head has
// one of the usual sizes and the call fills whole blocks, sizes are constants of the kernel and no
// thread tests where it stands; other calls take a two-dimensional block, so that no thread
// divides. The two weights are a logistic function of one difference: an exponential and a
// reciprocal. A call that fits L2 is loaded past L1; a larger one takes larger blocks. Results are
// stored as streaming.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kPackBytes = 16;
constexpr int kSmallBlock = 128;
constexpr int kBlock = 256;
constexpr int kLargeBlock = 512;
constexpr int64_t kSmallCall = 65536;           // packs
constexpr int64_t kL2Bytes = 60 * 1000 * 1000;  // what an H200's L2 holds
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

template <bool kPastL1>
__device__ __forceinline__ uint4 load(const uint4* address) {
  if constexpr (!kPastL1) return __ldg(address);
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
               : "l"(address));
  return bits;
}

// The pack at `index` of head `head`; the head's first pack also writes its log-sum-exp.
template <typename T, bool kPastL1, typename Index>
__device__ __forceinline__ void merge(const Call& call, Index index, Index head, bool first) {
  const float s_a = __ldg(call.s_a + head);
  const float s_b = __ldg(call.s_b + head);
  const uint4 a = load<kPastL1>(call.v_a + index);
  const uint4 b = load<kPastL1>(call.v_b + index);
  const Weights weights = weights_of(s_a, s_b);
  __stcs(call.v_merged + index, mixed<T>(a, b, weights));
  if (first) call.s_merged[head] = weights.lse;
}

// Whole blocks, heads of kPacks packs.
template <typename T, int kPacks, int kThreads, bool kPastL1>
__global__ void __launch_bounds__(kThreads) whole_kernel(const Call call) {
  const unsigned index = blockIdx.x * kThreads + threadIdx.x;
  merge<T, kPastL1>(call, index, index / kPacks, index % kPacks == 0);
}

// Heads of blockDim.x packs, blockDim.y of them in a block: nothing is divided.
template <typename T>
__global__ void __launch_bounds__(kBlock) any_kernel(const Call call, int64_t heads) {
  const int64_t head = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (head >= heads) return;
  merge<T, true>(call, head * blockDim.x + threadIdx.x, head, threadIdx.x == 0);
}

template <typename T, int kPacks>
bool launch_whole(const Call& call, int64_t total, cudaStream_t stream) {
  const int64_t bytes = 3 * total * kPackBytes;
  const int threads =
      bytes > kL2Bytes ? kLargeBlock : total > kSmallCall ? kBlock : kSmallBlock;
  if (total % threads != 0 || total > UINT32_MAX) return false;
  const unsigned blocks = static_cast<unsigned>(total / threads);
  const auto kernel = threads == kLargeBlock ? whole_kernel<T, kPacks, kLargeBlock, false>
                      : threads == kBlock    ? whole_kernel<T, kPacks, kBlock, true>
                                             : whole_kernel<T, kPacks, kSmallBlock, true>;
  kernel<<<blocks, threads, 0, stream>>>(call);
  return true;
}

template <typename T>
cudaError_t launch(const Call& call, int64_t heads, int64_t d, cudaStream_t stream) {
  constexpr int64_t kSize = kPackBytes / static_cast<int64_t>(sizeof(T));
  const int64_t packs = d / kSize;
  const int64_t total = heads * packs;
  const bool whole = d == 128   ? launch_whole<T, 128 / kSize>(call, total, stream)
                     : d == 256 ? launch_whole<T, 256 / kSize>(call, total, stream)
                     : d == 64  ? launch_whole<T, 64 / kSize>(call, total, stream)
                                : false;
  if (!whole) {
    const unsigned width = static_cast<unsigned>(packs);
    const dim3 block(width, kBlock / width);
    const int64_t blocks = (heads + block.y - 1) / block.y;
    any_kernel<T><<<static_cast<unsigned>(blocks), block, 0, stream>>>(call, heads);
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
