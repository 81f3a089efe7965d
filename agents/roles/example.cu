// scaled_add(out, a, b): out[r, i] = a[r, i] + factor * b[r, i]; contiguous rows; 16-byte vectors.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

template <typename T>
struct alignas(16) Vec {
  T item[16 / sizeof(T)];
};

template <typename T>
__global__ void scaled_add_kernel(T* __restrict__ out, const T* __restrict__ a,
                                  const T* __restrict__ b, int64_t total, float factor) {
  constexpr int kWidth = 16 / sizeof(T);
  const int64_t thread = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t vectors = total / kWidth;
  for (int64_t v = thread; v < vectors; v += threads) {
    const Vec<T> x = reinterpret_cast<const Vec<T>*>(a)[v];
    const Vec<T> y = reinterpret_cast<const Vec<T>*>(b)[v];
    Vec<T> sum;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      sum.item[k] = T(static_cast<float>(x.item[k]) + factor * static_cast<float>(y.item[k]));
    }
    reinterpret_cast<Vec<T>*>(out)[v] = sum;
  }
  // The elements that fill no whole vector.
  for (int64_t i = vectors * kWidth + thread; i < total; i += threads) {
    out[i] = T(static_cast<float>(a[i]) + factor * static_cast<float>(b[i]));
  }
}

template <typename T>
cudaError_t launch(void* out, const void* a, const void* b, int64_t total, float factor,
                   cudaStream_t stream) {
  constexpr int kThreads = 256;
  const int64_t vectors = total / (16 / sizeof(T)) + 1;
  const int64_t wanted = (vectors + kThreads - 1) / kThreads;
  const unsigned blocks = static_cast<unsigned>(wanted < 65535 ? wanted : 65535);
  scaled_add_kernel<T><<<blocks, kThreads, 0, stream>>>(
      static_cast<T*>(out), static_cast<const T*>(a), static_cast<const T*>(b), total, factor);
  return cudaGetLastError();
}

// dtype: 0 float32, 1 float16, 2 bfloat16.
extern "C" cudaError_t scaled_add(void* out, const void* a, const void* b, int64_t rows, int64_t d,
                                  float factor, int dtype, cudaStream_t stream) {
  const int64_t total = rows * d;
  if (total == 0) return cudaSuccess;
  switch (dtype) {
    case 0: return launch<float>(out, a, b, total, factor, stream);
    case 1: return launch<__half>(out, a, b, total, factor, stream);
    case 2: return launch<__nv_bfloat16>(out, a, b, total, factor, stream);
    default: return cudaErrorInvalidValue;
  }
}
