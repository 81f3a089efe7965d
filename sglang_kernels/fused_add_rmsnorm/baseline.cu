// SGLang's fused_add_rmsnorm: the algorithm of FlashInfer's FusedAddRMSNorm as SGLang's compiled
// library of September 2025 launches it. One block per row, warps on the block's second dimension,
// the widest vector that fits a row. Pass one adds, stores the residual and keeps the sums as fp32
// in shared memory; two steps reduce the squares; pass two loads the weight and scales.
// Launched without the programmatic attribute, as with enable_pdl = false.

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

// Sums of one vector, as 128-bit words of shared memory where it holds that many.
template <int kSize>
struct alignas(kSize < 4 ? 4 * kSize : kVectorBytes) Sums {
  float item[kSize];
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

__host__ __device__ constexpr int rounded_to_four(int count) { return (count + 3) / 4 * 4; }

template <typename T, int kSize>
__global__ void fused_add_rmsnorm_kernel(T* __restrict__ input, T* __restrict__ residual,
                                         const T* __restrict__ weight, int h, int64_t input_stride,
                                         int64_t residual_stride, float eps) {
  extern __shared__ float4 shared_memory[];
  float* warp_sums = reinterpret_cast<float*>(shared_memory);
  const int warps = blockDim.y;
  const int threads = warps * kWarp;
  const int thread = threadIdx.y * kWarp + threadIdx.x;
  float* sums = warp_sums + rounded_to_four(warps);
  T* input_row = input + blockIdx.x * input_stride;
  T* residual_row = residual + blockIdx.x * residual_stride;
  const int rounds = (h + threads * kSize - 1) / (threads * kSize);

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif

  float squares = 0.0f;
  for (int round = 0; round < rounds; ++round) {
    const int at = (round * threads + thread) * kSize;
    if (at < h) {
      const Vector<T, kSize> x = load<kSize>(input_row + at);
      Vector<T, kSize> r = load<kSize>(residual_row + at);
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
      store(input_row + at, result);
    }
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

template <typename T, int kSize>
cudaError_t launch_vectors(T* input, T* residual, const T* weight, int64_t tokens, int64_t h,
                           int64_t input_stride, int64_t residual_stride, float eps,
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
      input, residual, weight, static_cast<int>(h), input_stride, residual_stride, eps);
  return cudaGetLastError();
}

// The widest vector that divides the row. The original trusts strides to keep rows aligned; here
// any stride is legal, so strides count too.
template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   int64_t input_stride, int64_t residual_stride, float eps, cudaStream_t stream) {
  T* x = static_cast<T*>(input);
  T* r = static_cast<T*>(residual);
  const T* w = static_cast<const T*>(weight);
  const int64_t extents = (h | input_stride | residual_stride) * static_cast<int64_t>(sizeof(T));
  const auto at_least = [&](int64_t bytes) { return extents % bytes == 0; };
  const auto with = [&](auto kernel) {
    return kernel(x, r, w, tokens, h, input_stride, residual_stride, eps, stream);
  };
  constexpr int kItem = sizeof(T);
  if (at_least(16)) return with(launch_vectors<T, 16 / kItem>);
  if (at_least(8)) return with(launch_vectors<T, 8 / kItem>);
  if (kItem == 4 || !at_least(4)) return with(launch_vectors<T, 1>);
  return with(launch_vectors<T, 4 / kItem>);
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,
                                         int64_t tokens, int64_t h, int64_t input_stride,
                                         int64_t residual_stride, float eps, int dtype,
                                         cudaStream_t stream) {
  switch (dtype) {
    case 0:
      return launch<float>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                           stream);
    case 1:
      return launch<__half>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                            stream);
    case 2:
      return launch<__nv_bfloat16>(input, residual, weight, tokens, h, input_stride,
                                   residual_stride, eps, stream);
    default: return cudaErrorInvalidValue;
  }
}
