// SGLang's per-token quantisation to fp8 (e4m3), as its compiled library of September 2025 launches it:
// from 16 tokens a multiprocessor on a warp a token and eight tokens a block, below that a block of 256
// threads a token. Two passes over the row: the largest magnitude, then the codes. A lane takes 16
// elements at a time where they divide the row, else 8 or 4; only codes of 16 are stored as one vector.
// Two faults of the original are corrected. Its warps shared one word for their scales, which raced:
// here each has its own. A block's row of zeros was multiplied by infinity: here its codes are zeros,
// as a warp's are.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTokensOfMultiprocessor = 2 * kWarps;
constexpr float kLargest = 448.0f;

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <int kBytes> struct Bits { using Word = uint4; };
template <> struct Bits<8> { using Word = uint2; };

template <typename T, int kSize>
struct alignas(16) Vector {
  using Word = typename Bits<kSize * static_cast<int>(sizeof(T))>::Word;
  static constexpr int kWords = kSize * sizeof(T) / sizeof(Word);
  T item[kSize];
};

template <int kSize, typename T>
__device__ __forceinline__ Vector<T, kSize> load(const T* address) {
  using Word = typename Vector<T, kSize>::Word;
  Vector<T, kSize> result;
#pragma unroll
  for (int i = 0; i < Vector<T, kSize>::kWords; ++i) {
    reinterpret_cast<Word*>(&result)[i] = reinterpret_cast<const Word*>(address)[i];
  }
  return result;
}

template <int kSize>
struct alignas(16) Codes {
  __nv_fp8_e4m3 item[kSize];
};

template <int kSize>
__device__ __forceinline__ void store(__nv_fp8_e4m3* address, const Codes<kSize>& codes) {
  if constexpr (kSize == 16) {
    *reinterpret_cast<uint4*>(address) = *reinterpret_cast<const uint4*>(&codes);
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) address[i] = codes.item[i];
  }
}

__device__ __forceinline__ float warp_largest(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  }
  return value;
}

template <int kSize, typename T>
__device__ __forceinline__ float largest_of(const T* row, int hidden, int thread, int threads) {
  float largest = 0.0f;
  for (int index = thread; index < hidden / kSize; index += threads) {
    const Vector<T, kSize> x = load<kSize>(row + index * kSize);
#pragma unroll
    for (int i = 0; i < kSize; ++i) largest = fmaxf(largest, fabsf(to_float(x.item[i])));
  }
  return largest;
}

__device__ __forceinline__ float clamped(float value) {
  return fmaxf(fminf(value, kLargest), -kLargest);
}

template <int kSize, typename T>
__device__ __forceinline__ void quantize(__nv_fp8_e4m3* codes, const T* row, float scale, int hidden,
                                         int thread, int threads) {
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (int index = thread; index < hidden / kSize; index += threads) {
    const Vector<T, kSize> x = load<kSize>(row + index * kSize);
    Codes<kSize> result;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      result.item[i] = __nv_fp8_e4m3(clamped(to_float(x.item[i]) * inverse));
    }
    store(codes + index * kSize, result);
  }
}

template <typename T, int kSize>
__global__ void block_a_token(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                              float* __restrict__ output_s, int hidden) {
  __shared__ float of_warps[kWarps];
  __shared__ float scale;
  const int64_t token = blockIdx.x;
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const T* row = input + token * hidden;
  const float own = warp_largest(largest_of<kSize>(row, hidden, threadIdx.x, kThreads));
  if (lane == 0) of_warps[warp] = own;
  __syncthreads();
  if (warp == 0) {
    const float largest = warp_largest(lane < kWarps ? of_warps[lane] : 0.0f);
    if (lane == 0) {
      scale = largest / kLargest;
      output_s[token] = scale;
    }
  }
  __syncthreads();
  quantize<kSize>(output_q + token * hidden, row, scale, hidden, threadIdx.x, kThreads);
}

template <typename T, int kSize>
__global__ void warp_a_token(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                             float* __restrict__ output_s, int64_t tokens, int hidden) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const int lane = threadIdx.x % kWarp;
  const T* row = input + token * hidden;
  const float scale = warp_largest(largest_of<kSize>(row, hidden, lane, kWarp)) / kLargest;
  if (lane == 0) output_s[token] = scale;
  quantize<kSize>(output_q + token * hidden, row, scale, hidden, lane, kWarp);
}

template <typename T, int kSize>
cudaError_t launch_vectors(const T* input, __nv_fp8_e4m3* output_q, float* output_s, int64_t tokens,
                           int hidden, cudaStream_t stream) {
  int device = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  if (tokens >= static_cast<int64_t>(multiprocessors) * kTokensOfMultiprocessor) {
    const unsigned blocks = static_cast<unsigned>((tokens + kWarps - 1) / kWarps);
    warp_a_token<T, kSize><<<blocks, kThreads, 0, stream>>>(input, output_q, output_s, tokens,
                                                            hidden);
  } else {
    block_a_token<T, kSize><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
        input, output_q, output_s, hidden);
  }
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t hidden,
                   cudaStream_t stream) {
  const auto with = [&](auto kernel) {
    return kernel(static_cast<const T*>(input), static_cast<__nv_fp8_e4m3*>(output_q),
                  static_cast<float*>(output_s), tokens, static_cast<int>(hidden), stream);
  };
  if (hidden % 16 == 0) return with(launch_vectors<T, 16>);
  if (hidden % 8 == 0) return with(launch_vectors<T, 8>);
  return with(launch_vectors<T, 4>);
}

}  // namespace

extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s,
                                           int64_t tokens, int64_t hidden, int dtype,
                                           cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(input, output_q, output_s, tokens, hidden, stream);
    case 1: return launch<__half>(input, output_q, output_s, tokens, hidden, stream);
    case 2: return launch<__nv_bfloat16>(input, output_q, output_s, tokens, hidden, stream);
    default: return cudaErrorInvalidValue;
  }
}
