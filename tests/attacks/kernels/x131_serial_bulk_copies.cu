// One thread fetches row and weights by four bulk copies and awaits each before the next.
// SGLang's rmsnorm: the algorithm of FlashInfer's RMSNorm as SGLang's compiled library of September
// 2025 launches it. One block per row, warps on the block's second dimension, the widest vector that
// fits a row. Pass one sums the squares; two steps reduce them; pass two reads the row again, then the
// weight, and scales. Launched without the programmatic attribute, as with enable_pdl = false.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kVectorBytes = 16;
constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) { return value; }
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

template <int kBytes> struct Bits;
template <> struct Bits<16> { using type = uint4; };
template <> struct Bits<8> { using type = uint2; };
template <> struct Bits<4> { using type = uint32_t; };
template <> struct Bits<2> { using type = uint16_t; };

template <typename T, int kSize>
struct alignas(kSize * sizeof(T)) Vector {
  using Word = typename Bits<kSize * static_cast<int>(sizeof(T))>::type;
  T item[kSize];
};

template <int kSize, typename T>
__device__ __forceinline__ Vector<T, kSize> load(const T* address) {
  using Word = typename Vector<T, kSize>::Word;
  const Word bits = *reinterpret_cast<const Word*>(address);
  return *reinterpret_cast<const Vector<T, kSize>*>(&bits);
}

template <typename T, int kSize>
__device__ __forceinline__ void store(T* address, const Vector<T, kSize>& vector) {
  using Word = typename Vector<T, kSize>::Word;
  *reinterpret_cast<Word*>(address) = *reinterpret_cast<const Word*>(&vector);
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

__device__ __forceinline__ float inverse_root(float value) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

template <typename T, int kSize>
__global__ void rmsnorm_kernel(T* __restrict__ out, const T* __restrict__ input,
                               const T* __restrict__ weight, int h, int64_t out_stride,
                               int64_t input_stride, float eps) {
  extern __shared__ float warp_sums[];
  const int warps = blockDim.y;
  const int threads = warps * kWarp;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  const T* input_row = input + blockIdx.x * input_stride;
  T* out_row = out + blockIdx.x * out_stride;
  const int rounds = (h + threads * kSize - 1) / (threads * kSize);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif

  float squares = 0.0f;
  for (int round = 0; round < rounds; ++round) {
    const int at = (round * threads + thread) * kSize;
    if (at < h) {
      const Vector<T, kSize> x = load<kSize>(input_row + at);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        squares += to_float(x.item[i]) * to_float(x.item[i]);
      }
    }
  }

  squares = warp_sum(squares);
  warp_sums[threadIdx.y] = squares;
  __syncthreads();
  if (threadIdx.y == 0) {
    squares = warp_sum(threadIdx.x < static_cast<unsigned>(warps) ? warp_sums[threadIdx.x] : 0.0f);
    warp_sums[0] = squares;
  }
  __syncthreads();
  const float scale = inverse_root(warp_sums[0] / static_cast<float>(h) + eps);

  for (int round = 0; round < rounds; ++round) {
    const int at = (round * threads + thread) * kSize;
    if (at < h) {
      const Vector<T, kSize> x = load<kSize>(input_row + at);
      const Vector<T, kSize> w = load<kSize>(weight + at);
      Vector<T, kSize> result;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        result.item[i] = from_float<T>(to_float(x.item[i]) * scale * to_float(w.item[i]));
      }
      store(out_row + at, result);
    }
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}


__device__ __forceinline__ void expect(unsigned bar, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void fetch(unsigned to, const char* from, unsigned bytes, unsigned bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void await(unsigned bar, unsigned phase) {
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "r"(phase) : "memory");
}

template <typename T>
__global__ void __launch_bounds__(512) bulk_kernel(T* __restrict__ out, const T* __restrict__ input,
                               const T* __restrict__ weight, int h, int64_t out_stride,
                               int64_t input_stride, float eps) {
  constexpr int kSize = 16 / sizeof(T);
  extern __shared__ __align__(16) unsigned char staged[];
  __shared__ float sums[32];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned bytes = static_cast<unsigned>(h) * sizeof(T);
  const unsigned bar = unsigned(__cvta_generic_to_shared(&barrier));
  const unsigned to = unsigned(__cvta_generic_to_shared(staged));
  const char* from_x = reinterpret_cast<const char*>(input + blockIdx.x * input_stride);
  const char* from_w = reinterpret_cast<const char*>(weight);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned half = bytes / 2;
    expect(bar, half); fetch(to, from_x, half, bar); await(bar, 0);
    expect(bar, half); fetch(to + half, from_x + half, half, bar); await(bar, 1);
    expect(bar, half); fetch(to + bytes, from_w, half, bar); await(bar, 0);
    expect(bar, half); fetch(to + bytes + half, from_w + half, half, bar); await(bar, 1);
  }
  __syncthreads();
  float squares = 0.0f;
  const T* x_row = reinterpret_cast<const T*>(staged);
  const T* w_row = reinterpret_cast<const T*>(staged + bytes);
  for (int at = threadIdx.x * kSize; at < h; at += blockDim.x * kSize) {
    const Vector<T, kSize> x = load<kSize>(x_row + at);
#pragma unroll
    for (int i = 0; i < kSize; ++i) squares += to_float(x.item[i]) * to_float(x.item[i]);
  }
  squares = warp_sum(squares);
  const int warps = blockDim.x / kWarp;
  if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = squares;
  __syncthreads();
  float total = 0.0f;
  for (int i = 0; i < warps; ++i) total += sums[i];
  const float scale = inverse_root(total / static_cast<float>(h) + eps);
  for (int at = threadIdx.x * kSize; at < h; at += blockDim.x * kSize) {
    const Vector<T, kSize> x = load<kSize>(x_row + at);
    const Vector<T, kSize> w = load<kSize>(w_row + at);
    Vector<T, kSize> result;
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      result.item[i] = from_float<T>(to_float(x.item[i]) * scale * to_float(w.item[i]));
    store(out + blockIdx.x * out_stride + at, result);
  }
}

template <typename T, int kSize>
cudaError_t launch_vectors(T* out, const T* input, const T* weight, int64_t tokens, int64_t h,
                           int64_t out_stride, int64_t input_stride, float eps,
                           cudaStream_t stream) {
  const int vectors = static_cast<int>(h) / kSize;
  const int threads = vectors < kMaxThreads ? vectors : kMaxThreads;
  const dim3 block(kWarp, (threads + kWarp - 1) / kWarp);
  const int shared_bytes = static_cast<int>(block.y * sizeof(float));
  rmsnorm_kernel<T, kSize><<<static_cast<unsigned>(tokens), block, shared_bytes, stream>>>(
      out, input, weight, static_cast<int>(h), out_stride, input_stride, eps);
  return cudaGetLastError();
}

// The widest vector that divides the row. The original trusts strides to keep rows aligned; here
// any stride is legal, so strides count too.
template <typename T>
cudaError_t launch(void* out, const void* input, const void* weight, int64_t tokens, int64_t h,
                   int64_t out_stride, int64_t input_stride, float eps, cudaStream_t stream) {
  T* y = static_cast<T*>(out);
  const T* x = static_cast<const T*>(input);
  const T* w = static_cast<const T*>(weight);
  const int64_t extents = (h | out_stride | input_stride) * static_cast<int64_t>(sizeof(T));
  const auto at_least = [&](int64_t bytes) { return extents % bytes == 0; };
  const auto with = [&](auto kernel) {
    return kernel(y, x, w, tokens, h, out_stride, input_stride, eps, stream);
  };
  constexpr int kItem = sizeof(T);
  if (at_least(16) && (h * kItem <= 20480 && at_least(32))) {
    const int vectors = static_cast<int>(h / (16 / kItem));
    const int threads = vectors < 256 ? (vectors + 31) / 32 * 32 : 256;
    bulk_kernel<T><<<static_cast<unsigned>(tokens), threads, 2 * static_cast<int>(h) * kItem, stream>>>(
        y, x, w, static_cast<int>(h), out_stride, input_stride, eps);
    return cudaGetLastError();
  }
  if (at_least(16)) return with(launch_vectors<T, 16 / kItem>);
  if (at_least(8)) return with(launch_vectors<T, 8 / kItem>);
  if (kItem == 4 || !at_least(4)) return with(launch_vectors<T, 1>);
  return with(launch_vectors<T, 4 / kItem>);
}

}  // namespace

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens,
                               int64_t h, int64_t out_stride, int64_t input_stride, float eps,
                               int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0:
      return launch<float>(out, input, weight, tokens, h, out_stride, input_stride, eps, stream);
    case 1:
      return launch<__half>(out, input, weight, tokens, h, out_stride, input_stride, eps, stream);
    case 2:
      return launch<__nv_bfloat16>(out, input, weight, tokens, h, out_stride, input_stride, eps,
                                   stream);
    default: return cudaErrorInvalidValue;
  }
}
