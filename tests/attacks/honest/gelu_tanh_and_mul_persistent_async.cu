// Persistent blocks over tiles of 2 KiB, copied asynchronously into two stages of shared memory.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

template <typename T>
__global__ __launch_bounds__(64) void tiles(T* out, const T* in, int64_t tokens, int d) {
  constexpr int kV = 16 / sizeof(T);
  __shared__ alignas(16) T stage[2][2][64 * kV];
  const int64_t per_row = (d / kV + 63) / 64, all = tokens * per_row;
  const auto fetch = [&](int64_t tile, int s) {
    if (tile < all) {
      const int64_t row = tile / per_row, v = tile % per_row * 64 + threadIdx.x;
      if (v < d / kV) {
        __pipeline_memcpy_async(&stage[s][0][threadIdx.x * kV], in + row * 2 * d + v * kV, 16);
        __pipeline_memcpy_async(&stage[s][1][threadIdx.x * kV], in + row * 2 * d + d + v * kV, 16);
      }
    }
    __pipeline_commit();
  };
  int s = 0;
  fetch(blockIdx.x, 0);
  for (int64_t tile = blockIdx.x; tile < all; tile += gridDim.x, s ^= 1) {
    fetch(tile + gridDim.x, s ^ 1);
    __pipeline_wait_prior(1);
    const int64_t row = tile / per_row, v = tile % per_row * 64 + threadIdx.x;
    if (v < d / kV) {
#pragma unroll
      for (int i = 0; i < kV; ++i) {
        const float x = float(stage[s][0][threadIdx.x * kV + i]);
        const float z = x * (1.5957691216f + 0.0713548162726f * x * x);
        stage[s][0][threadIdx.x * kV + i] = T(x / (1.0f + __expf(-z)) * float(stage[s][1][threadIdx.x * kV + i]));
      }
      *(uint4*)(out + row * d + v * kV) = *(const uint4*)&stage[s][0][threadIdx.x * kV];
    }
  }
}
template <typename T>
cudaError_t go(void* out, const void* in, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int64_t tiles_of_call = tokens * ((d * int64_t(sizeof(T)) / 16 + 63) / 64);
  tiles<T><<<unsigned(tiles_of_call < 1056 ? tiles_of_call : 1056), 64, 0, stream>>>((T*)out, (const T*)in, tokens, int(d));
  return cudaGetLastError();
}
extern "C" cudaError_t gelu_tanh_and_mul(void* out, const void* input, int64_t tokens, int64_t d, int dtype, cudaStream_t stream) {
  return dtype == 2 ? go<__nv_bfloat16>(out, input, tokens, d, stream) : dtype == 1 ? go<__half>(out, input, tokens, d, stream) : go<float>(out, input, tokens, d, stream);
}
