// cp.async in three stages: gate and up of a tile are fetched two tiles ahead.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline_primitives.h>
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kThreads = 128, kStages = 3;

template <typename T>
__global__ void activate(T* out, const T* input, int64_t d) {
  constexpr int kItems = 16 / sizeof(T);
  __shared__ uint4 stage[kStages][2][kThreads];
  const T* gate = input + int64_t(blockIdx.x) * 2 * d;
  const int64_t vectors = d / kItems, tiles = (vectors + kThreads - 1) / kThreads;
  const auto fetch = [&](int64_t tile) {
    const int64_t v = tile * kThreads + threadIdx.x;
    if (v < vectors) {
      __pipeline_memcpy_async(&stage[tile % kStages][0][threadIdx.x], gate + v * kItems, 16);
      __pipeline_memcpy_async(&stage[tile % kStages][1][threadIdx.x], gate + d + v * kItems, 16);
    }
    __pipeline_commit();
  };
  for (int t = 0; t < kStages - 1; ++t) fetch(t);
  for (int64_t t = 0; t < tiles; ++t) {
    fetch(t + kStages - 1);
    __pipeline_wait_prior(kStages - 1);
    const int64_t v = t * kThreads + threadIdx.x;
    if (v < vectors) {  // each thread reads what it fetched itself: no barrier
      const uint4 a = stage[t % kStages][0][threadIdx.x], b = stage[t % kStages][1][threadIdx.x];
      const T *x = reinterpret_cast<const T*>(&a), *y = reinterpret_cast<const T*>(&b);
      uint4 result;
      T* r = reinterpret_cast<T*>(&result);
      for (int i = 0; i < kItems; ++i) {
        const float g = float(x[i]);
        r[i] = T(g / (1.0f + __expf(-g)) * float(y[i]));
      }
      *reinterpret_cast<uint4*>(out + blockIdx.x * d + v * kItems) = result;
    }
  }
}

template <typename T>
static cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  activate<<<unsigned(tokens), kThreads, 0, stream>>>((T*)out, (const T*)input, d);
  return cudaGetLastError();
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
