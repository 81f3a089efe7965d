// One block per row, the row in registers: every thread loads its vectors of input and residual
// once, adds, keeps the fp32 sums, and after the reduction scales what it kept. How many threads a
// row has and how many vectors each takes follows from the row's length alone, so a row's sums have
// the same order in every batch.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;

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

template <typename T, int kSize>
struct alignas(kSize * sizeof(T)) Vector {
  T item[kSize];
};

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

template <typename T, int kSize, int kVectors>
__global__ void __launch_bounds__(kMostThreads)
    row_kernel(T* __restrict__ input, T* __restrict__ residual, const T* __restrict__ weight,
               int h, float eps) {
  using V = Vector<T, kSize>;
  __shared__ float partial[kWarp];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * h;
  V* x = reinterpret_cast<V*>(input + first);
  V* r = reinterpret_cast<V*>(residual + first);
  const V* w = reinterpret_cast<const V*>(weight);
  const int vectors = h / kSize;
  const int threads = blockDim.x;

  float sums[kVectors][kSize];
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = v * threads + threadIdx.x;
    if (at < vectors) {
      const V a = x[at];
      V b = r[at];
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        sums[v][i] = to_float(a.item[i]) + to_float(b.item[i]);
        squares += sums[v][i] * sums[v][i];
        b.item[i] = from_float<T>(sums[v][i]);
      }
      r[at] = b;
    }
  }

  squares = warp_sum(squares);
  const int lane = threadIdx.x % kWarp;
  if (lane == 0) partial[threadIdx.x / kWarp] = squares;
  __syncthreads();
  squares = warp_sum(lane < threads / kWarp ? partial[lane] : 0.0f);
  const float scale = rsqrtf(squares / static_cast<float>(h) + eps);

#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int at = v * threads + threadIdx.x;
    if (at < vectors) {
      const V by = w[at];
      V result;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        result.item[i] = from_float<T>(sums[v][i] * scale * to_float(by.item[i]));
      }
      x[at] = result;
    }
  }
}

template <typename T, int kSize, int kVectors>
cudaError_t launch_vectors(T* x, T* r, const T* w, int64_t tokens, int64_t h, float eps,
                           cudaStream_t stream) {
  const int vectors = static_cast<int>(h) / kSize;
  const int each = (vectors + kVectors - 1) / kVectors;
  const int threads = (each + kWarp - 1) / kWarp * kWarp;
  row_kernel<T, kSize, kVectors><<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
      x, r, w, static_cast<int>(h), eps);
  return cudaGetLastError();
}

template <typename T, int kSize>
cudaError_t launch_sized(T* x, T* r, const T* w, int64_t tokens, int64_t h, float eps,
                         cudaStream_t stream) {
  const int64_t vectors = h / kSize;
  if (vectors <= kMostThreads) {
    return launch_vectors<T, kSize, 1>(x, r, w, tokens, h, eps, stream);
  }
  if (vectors <= 4 * kMostThreads) {
    return launch_vectors<T, kSize, 4>(x, r, w, tokens, h, eps, stream);
  }
  constexpr int kMost = kSize == 1 ? 32 : 8;
  if constexpr (kSize < 8) {
    return launch_vectors<T, kSize, kMost>(x, r, w, tokens, h, eps, stream);
  }
  return cudaErrorInvalidValue;
}

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   float eps, cudaStream_t stream) {
  constexpr int kSize = 16 / sizeof(T);
  T* x = static_cast<T*>(input);
  T* r = static_cast<T*>(residual);
  const T* w = static_cast<const T*>(weight);
  if (h % kSize == 0) return launch_sized<T, kSize>(x, r, w, tokens, h, eps, stream);
  return launch_sized<T, 1>(x, r, w, tokens, h, eps, stream);
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm_batch_invariant(void* input, void* residual,
                                                         const void* weight, int64_t tokens,
                                                         int64_t h, float eps, int dtype,
                                                         cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(input, residual, weight, tokens, h, eps, stream);
    case 1: return launch<__half>(input, residual, weight, tokens, h, eps, stream);
    case 2: return launch<__nv_bfloat16>(input, residual, weight, tokens, h, eps, stream);
    default: return cudaErrorInvalidValue;
  }
}
