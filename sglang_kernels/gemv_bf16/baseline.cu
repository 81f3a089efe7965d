// A linear layer for few rows, y = x w^T: the algorithm of SGLang's router product
// (sgl-kernel, csrc/gemm/dsv3_router_gemm_bf16_out.cu), for any extents. One block per column of
// the result; each thread takes eight of k at a time, by one 16-byte load of w and one of every
// row of x, and adds in fp32, a sum for each row; warps reduce by shuffles, the block in shared
// memory. The number of rows is a template argument.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
constexpr int kVector = 8;  // of bfloat16 in 16 bytes

__device__ __forceinline__ void to_floats(const uint4& bits, float (&values)[kVector]) {
  const uint32_t words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

template <int kRows>
__global__ void __launch_bounds__(kThreads) gemv_kernel(__nv_bfloat16* __restrict__ y,
                                                        const __nv_bfloat16* __restrict__ x,
                                                        const __nv_bfloat16* __restrict__ w,
                                                        int n, int k) {
  __shared__ float partial[kRows][kWarps];
  const int64_t column = blockIdx.x;
  const __nv_bfloat16* w_row = w + column * k;

  float sums[kRows] = {};
  for (int at = threadIdx.x * kVector; at < k; at += kThreads * kVector) {
    float weights[kVector];
    to_floats(*reinterpret_cast<const uint4*>(w_row + at), weights);
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      float values[kVector];
      to_floats(*reinterpret_cast<const uint4*>(x + row * k + at), values);
#pragma unroll
      for (int i = 0; i < kVector; ++i) sums[row] += values[i] * weights[i];
    }
  }

  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      sums[row] += __shfl_xor_sync(0xffffffffu, sums[row], offset);
    }
    if (lane == 0) partial[row][warp] = sums[row];
  }
  __syncthreads();
  const int row = threadIdx.x;
  if (row < kRows) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[row][i];
    y[static_cast<int64_t>(row) * n + column] = __float2bfloat16_rn(sum);
  }
}

template <int kRows>
cudaError_t launch(int64_t m, __nv_bfloat16* y, const __nv_bfloat16* x, const __nv_bfloat16* w,
                   int n, int k, cudaStream_t stream) {
  if constexpr (kRows > 0) {
    if (m != kRows) return launch<kRows - 1>(m, y, x, w, n, k, stream);
    gemv_kernel<kRows><<<static_cast<unsigned>(n), kThreads, 0, stream>>>(y, x, w, n, k);
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
