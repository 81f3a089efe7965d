// SGLang's fused_add_rmsnorm, then its per-token quantisation to fp8 (e4m3): the two kernels in
// sequence, as its compiled library of September 2025 launches them (tasks fused_add_rmsnorm and
// per_token_quant_fp8). The first rounds its results to T and leaves them in the caller's workspace,
// where upstream overwrites input; from there the second reads them.
// First: one block a row, the sums kept as fp32 in shared memory, the weight read after the reduction.
// Second: from 16 tokens a multiprocessor on a warp a token, below that a block of 256 threads a token;
// two passes over the row by vectors of 16, 8 or 4 elements. Its two faults are corrected here: warps
// shared one word for their scales, and a block's row of zeros was multiplied by infinity.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTokensOfMultiprocessor = 2 * kWarps;
constexpr float kLargest = 448.0f;

__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

// Of 16-bit elements.
template <int kSize> struct Bits { using Word = uint4; };
template <> struct Bits<4> { using Word = uint2; };

template <typename T, int kSize>
struct alignas(16) Vector {
  T item[kSize];
};

template <int kSize>
struct alignas(16) Sums {
  float item[kSize];
};

template <int kSize>
struct alignas(16) Codes {
  __nv_fp8_e4m3 item[kSize];
};

template <int kSize, typename T>
__device__ __forceinline__ Vector<T, kSize> load(const T* address) {
  using Word = typename Bits<kSize>::Word;
  Vector<T, kSize> result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(kSize * sizeof(T) / sizeof(Word)); ++i) {
    reinterpret_cast<Word*>(&result)[i] = reinterpret_cast<const Word*>(address)[i];
  }
  return result;
}

template <typename T, int kSize>
__device__ __forceinline__ void store(T* address, const Vector<T, kSize>& vector) {
  using Word = typename Bits<kSize>::Word;
  *reinterpret_cast<Word*>(address) = *reinterpret_cast<const Word*>(&vector);
}

template <int kSize>
__device__ __forceinline__ void store(__nv_fp8_e4m3* address, const Codes<kSize>& codes) {
  if constexpr (kSize == 16) {
    *reinterpret_cast<uint4*>(address) = *reinterpret_cast<const uint4*>(&codes);
  } else {
#pragma unroll
    for (int i = 0; i < kSize; ++i) address[i] = codes.item[i];
  }
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lanes);
  }
  return value;
}

__device__ __forceinline__ float warp_largest(float value) {
#pragma unroll
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  }
  return value;
}

__device__ __forceinline__ float inverse_root(float value) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}

__host__ __device__ constexpr int rounded_to_four(int count) { return (count + 3) / 4 * 4; }

template <typename T, int kSize>
__global__ void fused_add_rmsnorm_kernel(T* __restrict__ normed, const T* __restrict__ input,
                                         T* __restrict__ residual, const T* __restrict__ weight,
                                         int h, int64_t input_stride, int64_t residual_stride,
                                         float eps) {
  extern __shared__ float4 shared_memory[];
  float* warp_sums = reinterpret_cast<float*>(shared_memory);
  const int warps = blockDim.y;
  const int threads = warps * kWarp;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  float* sums = warp_sums + rounded_to_four(warps);
  const int64_t token = blockIdx.x;
  const T* input_row = input + token * input_stride;
  T* residual_row = residual + token * residual_stride;
  T* normed_row = normed + token * h;
  const int rounds = (h + threads * kSize - 1) / (threads * kSize);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif

  float squares = 0.0f;
  for (int round = 0; round < rounds; ++round) {
    const int at = (round * threads + thread) * kSize;
    if (at < h) {
      const Vector<T, kSize> x = load<kSize>(input_row + at);
      Vector<T, kSize> r = load<kSize>(static_cast<const T*>(residual_row + at));
      Sums<kSize> sum;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        sum.item[i] = to_float(x.item[i]) + to_float(r.item[i]);
        squares += sum.item[i] * sum.item[i];
        r.item[i] = from_float<T>(sum.item[i]);
      }
      store(residual_row + at, r);
      *reinterpret_cast<Sums<kSize>*>(sums + at) = sum;
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
      const Vector<T, kSize> w = load<kSize>(weight + at);
      const Sums<kSize> sum = *reinterpret_cast<const Sums<kSize>*>(sums + at);
      Vector<T, kSize> result;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        result.item[i] = from_float<T>(sum.item[i] * scale * to_float(w.item[i]));
      }
      store(normed_row + at, result);
    }
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

template <int kSize, typename T>
__device__ __forceinline__ float largest_of(const T* row, int h, int thread, int threads) {
  float largest = 0.0f;
  for (int index = thread; index < h / kSize; index += threads) {
    const Vector<T, kSize> x = load<kSize>(row + index * kSize);
#pragma unroll
    for (int i = 0; i < kSize; ++i) largest = fmaxf(largest, fabsf(to_float(x.item[i])));
  }
  return largest;
}

template <int kSize, typename T>
__device__ __forceinline__ void quantize(__nv_fp8_e4m3* codes, const T* row, float scale, int h,
                                         int thread, int threads) {
  const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
  for (int index = thread; index < h / kSize; index += threads) {
    const Vector<T, kSize> x = load<kSize>(row + index * kSize);
    Codes<kSize> result;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const float code = to_float(x.item[i]) * inverse;
      result.item[i] = __nv_fp8_e4m3(fmaxf(fminf(code, kLargest), -kLargest));
    }
    store(codes + index * kSize, result);
  }
}

template <typename T, int kSize>
__global__ void block_a_token(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                              float* __restrict__ output_s, int h) {
  __shared__ float of_warps[kWarps];
  __shared__ float scale;
  const int64_t token = blockIdx.x;
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const T* row = input + token * h;
  const float own = warp_largest(largest_of<kSize>(row, h, threadIdx.x, kThreads));
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
  quantize<kSize>(output_q + token * h, row, scale, h, threadIdx.x, kThreads);
}

template <typename T, int kSize>
__global__ void warp_a_token(const T* __restrict__ input, __nv_fp8_e4m3* __restrict__ output_q,
                             float* __restrict__ output_s, int64_t tokens, int h) {
  const int64_t token = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const int lane = threadIdx.x % kWarp;
  const T* row = input + token * h;
  const float scale = warp_largest(largest_of<kSize>(row, h, lane, kWarp)) / kLargest;
  if (lane == 0) output_s[token] = scale;
  quantize<kSize>(output_q + token * h, row, scale, h, lane, kWarp);
}

template <typename T, int kSize>
cudaError_t launch_norm(T* normed, const T* input, T* residual, const T* weight, int64_t tokens,
                        int64_t h, int64_t input_stride, int64_t residual_stride, float eps,
                        cudaStream_t stream) {
  const int vectors = static_cast<int>(h) / kSize;
  const int threads = vectors < kMaxThreads ? vectors : kMaxThreads;
  const dim3 block(kWarp, (threads + kWarp - 1) / kWarp);
  const auto kernel = fused_add_rmsnorm_kernel<T, kSize>;
  const int shared_bytes =
      static_cast<int>((rounded_to_four(static_cast<int>(block.y)) + h) * sizeof(float));
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
  if (error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(tokens), block, shared_bytes, stream>>>(
      normed, input, residual, weight, static_cast<int>(h), input_stride, residual_stride, eps);
  return cudaGetLastError();
}

template <typename T, int kSize>
cudaError_t launch_quant(const T* input, __nv_fp8_e4m3* output_q, float* output_s, int64_t tokens,
                         int h, cudaStream_t stream) {
  int device = 0;
  int multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) return error;
  error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return error;
  if (tokens >= static_cast<int64_t>(multiprocessors) * kTokensOfMultiprocessor) {
    const unsigned blocks = static_cast<unsigned>((tokens + kWarps - 1) / kWarps);
    warp_a_token<T, kSize><<<blocks, kThreads, 0, stream>>>(input, output_q, output_s, tokens, h);
  } else {
    block_a_token<T, kSize><<<static_cast<unsigned>(tokens), kThreads, 0, stream>>>(
        input, output_q, output_s, h);
  }
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const void* input, void* residual, const void* weight, void* output_q,
                   void* output_s, void* normed, int64_t tokens, int64_t h, int64_t input_stride,
                   int64_t residual_stride, float eps, cudaStream_t stream) {
  T* between = static_cast<T*>(normed);
  const auto norm = [&](auto kernel) {
    return kernel(between, static_cast<const T*>(input), static_cast<T*>(residual),
                  static_cast<const T*>(weight), tokens, h, input_stride, residual_stride, eps,
                  stream);
  };
  const bool by_eight = (h | input_stride | residual_stride) % 8 == 0;
  const cudaError_t error = by_eight ? norm(launch_norm<T, 8>) : norm(launch_norm<T, 4>);
  if (error != cudaSuccess) return error;
  const auto quant = [&](auto kernel) {
    return kernel(between, static_cast<__nv_fp8_e4m3*>(output_q), static_cast<float*>(output_s),
                  tokens, static_cast<int>(h), stream);
  };
  if (h % 16 == 0) return quant(launch_quant<T, 16>);
  if (h % 8 == 0) return quant(launch_quant<T, 8>);
  return quant(launch_quant<T, 4>);
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm_quant_fp8(const void* input, void* residual,
                                                   const void* weight, void* output_q,
                                                   void* output_s, void* normed, int64_t tokens,
                                                   int64_t h, int64_t input_stride,
                                                   int64_t residual_stride, float eps, int dtype,
                                                   cudaStream_t stream) {
  const auto with = [&](auto run) {
    return run(input, residual, weight, output_q, output_s, normed, tokens, h, input_stride,
               residual_stride, eps, stream);
  };
  switch (dtype) {
    case 1: return with(launch<__half>);
    case 2: return with(launch<__nv_bfloat16>);
    default: return cudaErrorInvalidValue;
  }
}
