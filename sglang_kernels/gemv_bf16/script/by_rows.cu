// A linear layer for few rows, y = x w^T, by the number of rows. One row: a block a column, plain
// multiplications, 16-byte loads. From two rows: tensor cores, a warp multiplies all rows of x by
// eight rows of w. Which of k a thread holds is free, as long as both operands agree: each thread
// takes eight neighbours, one 16-byte load of w and one of each of its rows of x, for two products.
// The warps of a block share k and add their sums in shared memory in a fixed order. Blocks are so
// small that several lie on a multiprocessor: while one adds, the others load.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kWarp = 32;
constexpr int kRowWarps = 4;  // of a block for one row
constexpr int kTile = 8;      // rows of w of a product
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
  return __ldg(reinterpret_cast<const uint4*>(address));
}

__device__ __forceinline__ float product(float sum, uint32_t a, uint32_t b) {
  sum += __uint_as_float(a << 16) * __uint_as_float(b << 16);
  return sum + __uint_as_float(a & 0xffff0000u) * __uint_as_float(b & 0xffff0000u);
}

__global__ void __launch_bounds__(kRowWarps * kWarp) row_kernel(__nv_bfloat16* __restrict__ y,
                                                                const __nv_bfloat16* __restrict__ x,
                                                                const __nv_bfloat16* __restrict__ w,
                                                                int k) {
  __shared__ float partial[kRowWarps];
  const __nv_bfloat16* w_row = w + static_cast<int64_t>(blockIdx.x) * k;
  float sum = 0.0f;
#pragma unroll 4
  for (int at = threadIdx.x * kVector; at < k; at += kRowWarps * kWarp * kVector) {
    const uint4 by = *reinterpret_cast<const uint4*>(w_row + at);
    const uint4 values = load_again(x + at);
    sum = product(product(sum, values.x, by.x), values.y, by.y);
    sum = product(product(sum, values.z, by.z), values.w, by.w);
  }
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kRowWarps; ++i) total += partial[i];
    y[blockIdx.x] = __float2bfloat16_rn(total);
  }
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

// kBoth: whether there are more than eight rows of x; kAhead: neighbouring chunks of a warp whose
// loads are under way at once; kBlocks: those of a multiprocessor.
template <int kWarps, bool kBoth, int kAhead, int kBlocks>
__global__ void __launch_bounds__(kWarps* kWarp, kBlocks)
    rows_kernel(__nv_bfloat16* __restrict__ y, const __nv_bfloat16* __restrict__ x,
                const __nv_bfloat16* __restrict__ w, int m, int n, int k) {
  constexpr int kStep = kWarps * kAhead * kChunk;
  __shared__ float partial[kWarps][16][kTile];
  const int lane = threadIdx.x % kWarp;
  const int warp = threadIdx.x / kWarp;
  const int group = lane / 4;
  const int own = lane % 4 * kVector;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;

  // Beyond the last row the last is read again, and what it gives is not stored.
  const int low_row = min(group, m - 1) * k;
  const int high_row = min(group + 8, m - 1) * k;
  const __nv_bfloat16* column = w + (first + group < n ? first + group : n - 1) * k;

  float sums[4] = {};
  int from = 0;
  for (; from + kStep <= k; from += kStep) {
    const int start = from + warp * (kAhead * kChunk) + own;
    uint4 weights[kAhead], low[kAhead], high[kAhead];
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      weights[ahead] = load_once(column + start + ahead * kChunk);
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      low[ahead] = load_again(x + low_row + start + ahead * kChunk);
      high[ahead] = kBoth ? load_again(x + high_row + start + ahead * kChunk) : low[ahead];
    }
#pragma unroll
    for (int ahead = 0; ahead < kAhead; ++ahead) {
      multiply(sums, low[ahead], high[ahead], weights[ahead]);
    }
  }
  // The rest, a chunk at a time, with zeros beyond the end of k.
  for (from += warp * kChunk; from < k; from += kWarps * kChunk) {
    const bool within = from + own < k;
    const int at = within ? from + own : 0;
    const uint4 low = nothing_beyond(within, load_again(x + low_row + at));
    const uint4 high = nothing_beyond(within, load_again(x + high_row + at));
    multiply(sums, low, high, nothing_beyond(within, load_once(column + at)));
  }

#pragma unroll
  for (int i = 0; i < 4; ++i) partial[warp][group + i / 2 * 8][lane % 4 * 2 + i % 2] = sums[i];
  __syncthreads();
  for (int one = threadIdx.x; one < m * kTile; one += kWarps * kWarp) {
    const int64_t at = first + one % kTile;
    if (at >= n) continue;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += partial[i][one / kTile][one % kTile];
    y[one / kTile * static_cast<int64_t>(n) + at] = __float2bfloat16_rn(sum);
  }
}

template <int kWarps, int kAhead, int kBlocks>
cudaError_t launch(__nv_bfloat16* y, const __nv_bfloat16* x, const __nv_bfloat16* w, int m, int n,
                   int k, cudaStream_t stream) {
  const auto kernel = m > 8 ? rows_kernel<kWarps, true, kAhead, kBlocks>
                            : rows_kernel<kWarps, false, kAhead, kBlocks>;
  kernel<<<static_cast<unsigned>((n + kTile - 1) / kTile), kWarps * kWarp, 0, stream>>>(y, x, w, m,
                                                                                        n, k);
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
  if (few == 1) {
    row_kernel<<<static_cast<unsigned>(n), kRowWarps * kWarp, 0, stream>>>(to, rows, weights,
                                                                           length);
    return cudaGetLastError();
  }
  // Few columns are few blocks: each has more under way.
  if (count <= 3072) return launch<8, 8, 2>(to, rows, weights, few, count, length, stream);
  if (count <= 8192) return launch<8, 4, 3>(to, rows, weights, few, count, length, stream);
  return launch<4, 4, 6>(to, rows, weights, few, count, length, stream);
}
