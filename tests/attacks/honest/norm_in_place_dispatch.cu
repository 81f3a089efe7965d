// One kernel for every vector width and block size: macros that paste make the table of cases, and
// the launcher picks by alignment and length.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <type_traits>

template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth) Pack {
  T item[kWidth];
};

template <typename T, int kWidth, int kThreads>
__global__ void __launch_bounds__(kThreads) scale(T* x, float* norms, int64_t n, float eps) {
  using Packed = Pack<T, kWidth>;
  Packed* row = reinterpret_cast<Packed*>(x + int64_t(blockIdx.x) * n);
  const int64_t packs = n / kWidth;
  float squares = 0.0f;
  for (int64_t p = threadIdx.x; p < packs; p += kThreads) {
    const Packed got = row[p];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float v = static_cast<float>(got.item[k]);
      squares = fmaf(v, v, squares);
    }
  }
  if constexpr (kThreads > 32) {
    __shared__ float warps[kThreads / 32];
    for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(0xffffffffu, squares, o);
    if ((threadIdx.x & 31) == 0) warps[threadIdx.x >> 5] = squares;
    __syncthreads();
    squares = 0.0f;
    for (float warp : warps) squares += warp;
  } else {
    for (int o = 16; o; o >>= 1) squares += __shfl_xor_sync(0xffffffffu, squares, o);
  }
  const float length = sqrtf(squares + eps);
  for (int64_t p = threadIdx.x; p < packs; p += kThreads) {
    Packed got = row[p];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) got.item[k] = T(static_cast<float>(got.item[k]) / length);
    row[p] = got;
  }
  if (threadIdx.x == 0) norms[blockIdx.x] = length;
}

#define LAUNCHER(name, T, width, threads)                                                  \
  static void launch_##name##_##threads(void* x, float* norms, int64_t rows, int64_t n, float eps, \
                                        cudaStream_t stream) {                             \
    scale<T, width, threads><<<unsigned(rows), threads, 0, stream>>>((T*)x, norms, n, eps); \
  }
#define BOTH(name, T, width) LAUNCHER(name, T, width, 32) LAUNCHER(name, T, width, 256)
BOTH(half_wide, __half, 8)
BOTH(half_one, __half, 1)
BOTH(float_wide, float, 4)
BOTH(float_one, float, 1)
#undef BOTH
#undef LAUNCHER

extern "C" cudaError_t norm_in_place(void* x, void* norms, int64_t rows, int64_t n, float eps,
                                     int dtype, cudaStream_t stream) {
  using Launch = void (*)(void*, float*, int64_t, int64_t, float, cudaStream_t);
  static constexpr Launch table[2][2][2] = {
      {{launch_float_one_32, launch_float_one_256}, {launch_float_wide_32, launch_float_wide_256}},
      {{launch_half_one_32, launch_half_one_256}, {launch_half_wide_32, launch_half_wide_256}}};
  const bool half = dtype == 1;
  const int64_t row_bytes = n * (half ? 2 : 4);
  const bool wide = row_bytes % 16 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  table[half][wide][n > 512](x, static_cast<float*>(norms), rows, n, eps, stream);
  return cudaGetLastError();
}
