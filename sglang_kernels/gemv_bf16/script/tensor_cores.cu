// A linear layer for few rows on tensor cores, y = x w^T. A warp multiplies all rows of x by eight
// rows of w: w is the operand with eight columns, x the one with sixteen rows. Which of k a thread
// holds is free, as long as both operands agree: each thread takes eight neighbours, one 16-byte
// load of w and one of each of its rows of x, for two products. The warps of a block share k, and
// add their sums in shared memory in a fixed order. Sixteen warps take a row of 4096 at once: all
// loads of a small matrix are under way together.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 16;
constexpr int kThreads = kWarps * kWarp;
constexpr int kTile = 8;      // rows of w of one product
constexpr int kVector = 8;    // of bfloat16 in 16 bytes
constexpr int kChunk = 32;    // of k that a warp takes at a time: four threads a row

__device__ __forceinline__ uint4 load_once(const __nv_bfloat16* address) {
  uint4 bits;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
      : "l"(address));
  return bits;
}

__device__ __forceinline__ uint4 load_again(const __nv_bfloat16* address) {
  uint4 bits;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(bits.x), "=r"(bits.y), "=r"(bits.z), "=r"(bits.w)
      : "l"(address));
  return bits;
}

__device__ __forceinline__ void multiply_half(float (&sums)[4], uint32_t x0, uint32_t x1,
                                              uint32_t x2, uint32_t x3, uint32_t w0, uint32_t w1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(x0), "r"(x1), "r"(x2), "r"(x3), "r"(w0), "r"(w1));
}

__device__ __forceinline__ void multiply(float (&sums)[4], const uint4& low, const uint4& high,
                                         const uint4& by) {
  multiply_half(sums, low.x, high.x, low.y, high.y, by.x, by.y);
  multiply_half(sums, low.z, high.z, low.w, high.w, by.z, by.w);
}

__device__ __forceinline__ uint4 nothing_beyond(bool within, const uint4& bits) {
  return within ? bits : make_uint4(0, 0, 0, 0);
}

// kTiles: groups of eight rows of w per block; kBoth: whether there are more than eight rows of x;
// kAhead: chunks whose loads are under way at once.
template <int kTiles, bool kBoth, int kAhead>
__global__ void __launch_bounds__(kThreads) tensor_kernel(__nv_bfloat16* __restrict__ y,
                                                          const __nv_bfloat16* __restrict__ x,
                                                          const __nv_bfloat16* __restrict__ w,
                                                          int m, int n, int k) {
  constexpr int kStep = kWarps * kChunk;
  __shared__ float partial[kWarps][kTiles][16][kTile];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = lane / 4;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kTiles * kTile) + group;

  // Beyond the last row the last is read again, and what it gives is not stored.
  const int start = warp * kChunk + lane % 4 * kVector;
  const __nv_bfloat16* low_row = x + min(group, m - 1) * k + start;
  const __nv_bfloat16* high_row = x + min(group + 8, m - 1) * k + start;
  const __nv_bfloat16* columns[kTiles];
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int64_t column = first + tile * kTile;
    columns[tile] = w + (column < n ? column : n - 1) * k + start;
  }

  float sums[kTiles][4] = {};
  int from = 0;
  for (; from + kAhead * kStep <= k; from += kAhead * kStep) {
    uint4 weights[kAhead][kTiles], low[kAhead], high[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      const int at = from + ahead * kStep;
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        weights[ahead][tile] = load_once(columns[tile] + at);
      }
      low[ahead] = load_again(low_row + at);
      high[ahead] = kBoth ? load_again(high_row + at) : low[ahead];
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        multiply(sums[tile], low[ahead], high[ahead], weights[ahead][tile]);
      }
    }
  }
  // The rest, a chunk at a time, with zeros beyond the end of k.
  for (; from + warp * kChunk < k; from += kStep) {
    const bool within = from + start < k;
    const int at = within ? from : 0 - start;
    const uint4 low = nothing_beyond(within, *reinterpret_cast<const uint4*>(low_row + at));
    const uint4 high = nothing_beyond(within, *reinterpret_cast<const uint4*>(high_row + at));
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      multiply(sums[tile], low, high, nothing_beyond(within, load_once(columns[tile] + at)));
    }
  }

  const int column = lane % 4 * 2;
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    partial[warp][tile][group][column] = sums[tile][0];
    partial[warp][tile][group][column + 1] = sums[tile][1];
    partial[warp][tile][group + 8][column] = sums[tile][2];
    partial[warp][tile][group + 8][column + 1] = sums[tile][3];
  }
  __syncthreads();
  for (int one = threadIdx.x; one < m * kTiles * kTile; one += kThreads) {
    const int row = one / (kTiles * kTile);
    const int tile = one / kTile % kTiles;
    const int64_t at = static_cast<int64_t>(blockIdx.x) * (kTiles * kTile) + tile * kTile +
                       one % kTile;
    if (at >= n) continue;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[i][tile][row][one % kTile];
    y[row * static_cast<int64_t>(n) + at] = __float2bfloat16_rn(sum);
  }
}

template <int kTiles, int kAhead>
cudaError_t launch(__nv_bfloat16* y, const __nv_bfloat16* x, const __nv_bfloat16* w, int m, int n,
                   int k, cudaStream_t stream) {
  const unsigned blocks = static_cast<unsigned>((n + kTiles * kTile - 1) / (kTiles * kTile));
  const auto kernel = m > 8 ? tensor_kernel<kTiles, true, kAhead>
                            : tensor_kernel<kTiles, false, kAhead>;
  kernel<<<blocks, kThreads, 0, stream>>>(y, x, w, m, n, k);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t gemv_bf16(void* y, const void* x, const void* w, int64_t m, int64_t n,
                                 int64_t k, int dtype, cudaStream_t stream) {
  if (dtype != 2) return cudaErrorInvalidValue;
  __nv_bfloat16* to = static_cast<__nv_bfloat16*>(y);
  const __nv_bfloat16* rows = static_cast<const __nv_bfloat16*>(x);
  const __nv_bfloat16* weights = static_cast<const __nv_bfloat16*>(w);
  const int count = static_cast<int>(n);
  const int length = static_cast<int>(k);
  const int few = static_cast<int>(m);
  // Few columns: small tiles reach more multiprocessors. Many: rows of x serve twice the weights.
  if (n <= 8192) {
    if (k % 4096 == 0) return launch<1, 8>(to, rows, weights, few, count, length, stream);
    return launch<1, 4>(to, rows, weights, few, count, length, stream);
  }
  return launch<2, 4>(to, rows, weights, few, count, length, stream);
}
