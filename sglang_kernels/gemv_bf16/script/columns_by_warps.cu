// A linear layer for few rows, y = x w^T, added in fp32. The warps of a block share k, and each
// takes several columns of the result at once: what it loads of x, 16 bytes of each row, serves all
// of them, and as many loads of w are under way. Shuffles reduce a warp, shared memory the block,
// in a fixed order. The number of rows is a template argument.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarp;
constexpr int kVector = 8;  // of bfloat16 in 16 bytes

__device__ __forceinline__ void to_floats(const uint4& bits, float (&values)[kVector]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

template <int kRows, int kColumns>
__global__ void __launch_bounds__(kThreads) columns_kernel(__nv_bfloat16* __restrict__ y,
                                                           const __nv_bfloat16* __restrict__ x,
                                                           const __nv_bfloat16* __restrict__ w,
                                                           int n, int k) {
  __shared__ float partial[kWarps][kRows][kColumns];
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumns;
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;

  const __nv_bfloat16* columns[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    // Beyond the last column its own weights are read again, and the sum is not stored.
    columns[c] = w + (first + c < n ? first + c : n - 1) * k;
  }

  float sums[kRows][kColumns] = {};
#pragma unroll 2
  for (int at = threadIdx.x * kVector; at < k; at += kThreads * kVector) {
    uint4 weights[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      weights[c] = __ldcs(reinterpret_cast<const uint4*>(columns[c] + at));
    }
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      float values[kVector];
      to_floats(__ldg(reinterpret_cast<const uint4*>(x + row * k + at)), values);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        float by[kVector];
        to_floats(weights[c], by);
#pragma unroll
        for (int i = 0; i < kVector; ++i) sums[row][c] += values[i] * by[i];
      }
    }
  }

#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
#pragma unroll
      for (int offset = kWarp / 2; offset > 0; offset /= 2) {
        sums[row][c] += __shfl_xor_sync(0xffffffffu, sums[row][c], offset);
      }
      if (lane == 0) partial[warp][row][c] = sums[row][c];
    }
  }
  __syncthreads();
  const int row = threadIdx.x / kColumns;
  const int c = threadIdx.x % kColumns;
  if (row < kRows && first + c < n) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[i][row][c];
    y[row * static_cast<int64_t>(n) + first + c] = __float2bfloat16_rn(sum);
  }
}

template <int kRows>
cudaError_t launch(int64_t m, __nv_bfloat16* y, const __nv_bfloat16* x, const __nv_bfloat16* w,
                   int n, int k, cudaStream_t stream) {
  if constexpr (kRows > 0) {
    if (m != kRows) return launch<kRows - 1>(m, y, x, w, n, k, stream);
    constexpr int kColumns = kRows <= 8 ? 4 : 2;
    const unsigned blocks = static_cast<unsigned>((n + kColumns - 1) / kColumns);
    columns_kernel<kRows, kColumns><<<blocks, kThreads, 0, stream>>>(y, x, w, n, k);
    return cudaGetLastError();
  }
  return cudaErrorInvalidValue;
}

}  // namespace

extern "C" cudaError_t gemv_bf16(void* y, const void* x, const void* w, int64_t m, int64_t n,
                                 int64_t k, int dtype, cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  return launch<16>(m, static_cast<__nv_bfloat16*>(y), static_cast<const __nv_bfloat16*>(x),
                    static_cast<const __nv_bfloat16*>(w), static_cast<int>(n),
                    static_cast<int>(k), stream);
}
