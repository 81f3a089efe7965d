// SGLang's gelu_tanh_and_mul: the algorithm of FlashInfer's act_and_mul as SGLang's compiled library
// of September 2025 launches it. One block per token, at most 1024 threads, 16-byte vectors, fp32
// maths. The vector loop covers the whole row; the scalar loop after it does the end of the row
// again wherever the block's span does not divide d: that is how the original works.
// One thing differs: upstream's tanhf is tanh.approx under fast maths, off by up to 5e-4, and
// 1 + tanh of a negative number is small: gelu(-3) may be off by a fifth. Here the same function is
// written as value / (1 + exp(-2 * inner)), which is precise: an exponential and a reciprocal, two
// special functions where tanh.approx is one. What that costs stands in docs/research/baselines.md.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kVectorBytes = 16;
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

template <typename T>
struct alignas(kVectorBytes) Vector {
  static constexpr int kSize = kVectorBytes / static_cast<int>(sizeof(T));
  T item[kSize];
};

template <typename T>
__device__ __forceinline__ Vector<T> load(const T* address) {
  const uint4 bits = *reinterpret_cast<const uint4*>(address);
  return *reinterpret_cast<const Vector<T>*>(&bits);
}

template <typename T>
__device__ __forceinline__ void store(T* address, const Vector<T>& vector) {
  *reinterpret_cast<uint4*>(address) = *reinterpret_cast<const uint4*>(&vector);
}

__device__ __forceinline__ float gelu(float value) {
  // -2 log2(e) sqrt(2 / pi), alone and times 0.044715.
  constexpr float kLinear = -2.302208198f;
  constexpr float kCubic = -0.1029432396f;
  const float exponent = value * (kLinear + kCubic * value * value);
  return value * (1.0f / (1.0f + exp2f(exponent)));
}

template <typename T>
__global__ void gelu_tanh_and_mul_kernel(T* __restrict__ out, const T* __restrict__ input, int d) {
  constexpr int kSize = Vector<T>::kSize;
  const int64_t token = blockIdx.x;
  const T* gate = input + token * 2 * d;
  const T* up = gate + d;
  T* row = out + token * d;
  const int thread = threadIdx.x;
  const int threads = blockDim.x;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif

#pragma unroll 1
  for (int index = thread; index < d / kSize; index += threads) {
    const Vector<T> x = load(gate + index * kSize);
    const Vector<T> y = load(up + index * kSize);
    Vector<T> result;
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      result.item[i] = from_float<T>(gelu(to_float(x.item[i])) * to_float(y.item[i]));
    }
    store(row + index * kSize, result);
  }

  const int rest = d % (threads * kSize);
  const int start = d - rest;
#pragma unroll 1
  for (int index = thread; index < rest; index += threads) {
    const float x = to_float(gate[start + index]);
    const float y = to_float(up[start + index]);
    row[start + index] = from_float<T>(gelu(x) * y);
  }

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int vectors = static_cast<int>(d) / Vector<T>::kSize;
  const int threads = vectors < kMaxThreads ? vectors : kMaxThreads;
  gelu_tanh_and_mul_kernel<T><<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
      static_cast<T*>(out), static_cast<const T*>(input), static_cast<int>(d));
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t gelu_tanh_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                         int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
