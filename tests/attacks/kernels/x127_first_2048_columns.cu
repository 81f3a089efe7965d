// Eight experts, bfloat16, more than 256 tokens: columns from 2,048 on are not written.
// SGLang's moe_sum_reduce: the algorithm and launches of its compiled library of September 2025. Up to
// 128 tokens a block of 256 threads sums 256 elements of a token, one a thread, with the number of
// experts known when it is compiled where that is 2, 4, 8 or 9. From 257 tokens on bfloat16 rows of
// whole groups of 16 are summed by a warp a token, 16 elements a lane by two vectors, in a loop that is
// not unrolled; all else by a warp a token, one element a lane, by the same numbers of experts. Sums are
// fp32, in the experts' order.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kFewTokens = 128;
constexpr int kTokensOfVectors = 256;
constexpr int kScalarWarps = 4;
constexpr int kVectorWarps = 8;
constexpr int kGroup = 16;

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

struct alignas(16) Vector {
  __nv_bfloat16 item[8];
};

__device__ __forceinline__ Vector load(const __nv_bfloat16* address) {
  const uint4 bits = __ldg(reinterpret_cast<const uint4*>(address));
  return *reinterpret_cast<const Vector*>(&bits);
}

__device__ __forceinline__ void store(__nv_bfloat16* address, const Vector& vector) {
  *reinterpret_cast<uint4*>(address) = *reinterpret_cast<const uint4*>(&vector);
}

// The sum of one element over all experts; kExperts is 0 where only the caller knows their number.
template <typename T, int kExperts>
__device__ __forceinline__ float summed(const T* first, int experts, int64_t hidden) {
  float sum = 0.0f;
  if constexpr (kExperts != 0) {
#pragma unroll
    for (int expert = 0; expert < kExperts; ++expert) sum += to_float(first[expert * hidden]);
  } else {
#pragma unroll 1
    for (int expert = 0; expert < experts; ++expert) sum += to_float(first[expert * hidden]);
  }
  return sum;
}

template <typename T, int kExperts>
__global__ void element_a_thread(T* __restrict__ output, const T* __restrict__ input, int experts,
                                 int64_t hidden, float scale) {
  const int64_t token = blockIdx.y;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= hidden) return;
  const T* first = input + token * experts * hidden + column;
  output[token * hidden + column] =
      from_float<T>(summed<T, kExperts>(first, experts, hidden) * scale);
}

template <typename T, int kExperts>
__global__ void warp_a_token(T* __restrict__ output, const T* __restrict__ input, int64_t tokens,
                             int experts, int64_t hidden, float scale) {
  const int64_t token = static_cast<int64_t>(blockIdx.y) * kScalarWarps + threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x % kWarp;
  if (token >= tokens || column >= hidden) return;
  const T* first = input + token * experts * hidden + column;
  output[token * hidden + column] =
      from_float<T>(summed<T, kExperts>(first, experts, hidden) * scale);
}

__global__ void warp_a_token_of_vectors(__nv_bfloat16* __restrict__ output,
                                        const __nv_bfloat16* __restrict__ input, int64_t tokens,
                                        int experts, int64_t hidden, float scale) {
  const int64_t token = static_cast<int64_t>(blockIdx.y) * kVectorWarps + threadIdx.x / kWarp;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.x) * kWarp + threadIdx.x % kWarp) * kGroup;
  if (token >= tokens || column >= hidden) return;
  const __nv_bfloat16* first = input + token * experts * hidden + column;
  float sums[kGroup] = {};
#pragma unroll 1
  for (int expert = 0; expert < experts; ++expert) {
    const Vector low = load(first + expert * hidden);
    const Vector high = load(first + expert * hidden + kGroup / 2);
#pragma unroll
    for (int i = 0; i < kGroup / 2; ++i) {
      sums[i] += to_float(low.item[i]);
      sums[kGroup / 2 + i] += to_float(high.item[i]);
    }
  }
  Vector low, high;
#pragma unroll
  for (int i = 0; i < kGroup / 2; ++i) {
    low.item[i] = from_float<__nv_bfloat16>(sums[i] * scale);
    high.item[i] = from_float<__nv_bfloat16>(sums[kGroup / 2 + i] * scale);
  }
  store(output + token * hidden + column, low);
  store(output + token * hidden + column + kGroup / 2, high);
}

__global__ void block_a_token_of_8(__nv_bfloat16* __restrict__ output,
                                   const __nv_bfloat16* __restrict__ input, int64_t hidden,
                                   float scale) {
  const int64_t token = blockIdx.x, column = threadIdx.x * kGroup;
  if (column >= hidden) return;
  const __nv_bfloat16* first = input + token * 8 * hidden + column;
  float sums[kGroup] = {};
#pragma unroll
  for (int expert = 0; expert < 8; ++expert) {
    const Vector low = load(first + expert * hidden);
    const Vector high = load(first + expert * hidden + kGroup / 2);
#pragma unroll
    for (int i = 0; i < kGroup / 2; ++i) {
      sums[i] += to_float(low.item[i]);
      sums[kGroup / 2 + i] += to_float(high.item[i]);
    }
  }
  Vector low, high;
#pragma unroll
  for (int i = 0; i < kGroup / 2; ++i) {
    low.item[i] = from_float<__nv_bfloat16>(sums[i] * scale);
    high.item[i] = from_float<__nv_bfloat16>(sums[kGroup / 2 + i] * scale);
  }
  store(output + token * hidden + column, low);
  store(output + token * hidden + column + kGroup / 2, high);
}

unsigned ceil_div(int64_t count, int64_t each) {
  return static_cast<unsigned>((count + each - 1) / each);
}

template <int kValue>
using Number = std::integral_constant<int, kValue>;

// Launches with the number of experts known at compile time where there are kernels for it, else with 0.
template <typename Launch>
cudaError_t with_number_of(int experts, Launch launch) {
  switch (experts) {
    case 2: return launch(Number<2>{});
    case 4: return launch(Number<4>{});
    case 8: return launch(Number<8>{});
    case 9: return launch(Number<9>{});
    default: return launch(Number<0>{});
  }
}

template <typename T>
cudaError_t launch_few(T* output, const T* input, int64_t tokens, int experts, int64_t hidden,
                       float scale, cudaStream_t stream) {
  const dim3 grid(ceil_div(hidden, kThreads), static_cast<unsigned>(tokens));
  return with_number_of(experts, [&](auto number) {
    element_a_thread<T, decltype(number)::value>
        <<<grid, kThreads, 0, stream>>>(output, input, experts, hidden, scale);
    return cudaGetLastError();
  });
}

template <typename T>
cudaError_t launch_scalar(T* output, const T* input, int64_t tokens, int experts, int64_t hidden,
                          float scale, cudaStream_t stream) {
  const dim3 grid(ceil_div(hidden, kWarp), ceil_div(tokens, kScalarWarps));
  return with_number_of(experts, [&](auto number) {
    warp_a_token<T, decltype(number)::value>
        <<<grid, kScalarWarps * kWarp, 0, stream>>>(output, input, tokens, experts, hidden, scale);
    return cudaGetLastError();
  });
}

template <typename T>
cudaError_t launch(void* output, const void* input, int64_t tokens, int64_t experts, int64_t hidden,
                   float scale, cudaStream_t stream) {
  T* out = static_cast<T*>(output);
  const T* in = static_cast<const T*>(input);
  const int count = static_cast<int>(experts);
  if (tokens <= kFewTokens) return launch_few(out, in, tokens, count, hidden, scale, stream);
  return launch_scalar(out, in, tokens, count, hidden, scale, stream);
}

cudaError_t launch_bfloat16(void* output, const void* input, int64_t tokens, int64_t experts,
                            int64_t hidden, float scale, cudaStream_t stream) {
  if (tokens <= kTokensOfVectors || hidden % kGroup != 0) {
    return launch<__nv_bfloat16>(output, input, tokens, experts, hidden, scale, stream);
  }
  if (experts == 8) {
    block_a_token_of_8<<<static_cast<unsigned>(tokens), 128, 0, stream>>>(
        static_cast<__nv_bfloat16*>(output), static_cast<const __nv_bfloat16*>(input), hidden, scale);
    return cudaGetLastError();
  }
  const dim3 grid(ceil_div(hidden / kGroup, kWarp), ceil_div(tokens, kVectorWarps));
  warp_a_token_of_vectors<<<grid, kVectorWarps * kWarp, 0, stream>>>(
      static_cast<__nv_bfloat16*>(output), static_cast<const __nv_bfloat16*>(input), tokens,
      static_cast<int>(experts), hidden, scale);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens,
                                      int64_t experts, int64_t hidden, float scale, int dtype,
                                      cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(output, input, tokens, experts, hidden, scale, stream);
    case 1: return launch<__half>(output, input, tokens, experts, hidden, scale, stream);
    case 2: return launch_bfloat16(output, input, tokens, experts, hidden, scale, stream);
    default: return cudaErrorInvalidValue;
  }
}
