// Products with weights: four bits of them, few columns, squares of halves; and attention over short sequences.
#include "common.cuh"
#include <cuda_pipeline.h>
#include <mma.h>

namespace {

using namespace nvcuda;

// Eight weights of four bits, around 8, times eight numbers.
__device__ __forceinline__ float dot_eight(unsigned bits, const float2* x) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    sum += (static_cast<int>(bits >> 8 * j & 15) - 8) * x[j].x + (static_cast<int>(bits >> (8 * j + 4) & 15) - 8) * x[j].y;
  return sum;
}

__device__ __forceinline__ float dot_eight(unsigned bits, const Pack& x) {
  const float2 y[4] = {__half22float2(x.h[0]), __half22float2(x.h[1]), __half22float2(x.h[2]), __half22float2(x.h[3])};
  return dot_eight(bits, y);
}

// 64 weights, which are 8 words, share a scale. A block for a row, a word a thread.
__global__ void four_block(float* out, const Pack* x, const __half* scales, const unsigned* weights, int groups) {
  __shared__ float tree[128];
  const int t = threadIdx.x;
  const int64_t row = blockIdx.x;
  float sum = 0.0f;
  for (int i = t; i < groups * 8; i += 128)
    sum += __half2float(scales[row * groups + i / 8]) * dot_eight(weights[row * groups * 8 + i], x[i]);
  tree[t] = sum;
  __syncthreads();
  for (int half = 64; half; half /= 2) {
    if (t < half) tree[t] += tree[t + half];
    __syncthreads();
  }
  if (t == 0) out[row] = tree[0];
}

// A warp for a row, four words a lane.
__global__ void four_warp(float* out, const Pack* x, const __half* scales, const uint4* weights, int rows, int groups) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const uint4* mine = weights + int64_t{row} * groups * 2;
  const __half* scale = scales + int64_t{row} * groups;
  float sum = 0.0f;
#pragma unroll 2
  for (int i = lane; i < groups * 2; i += 32) {
    const uint4 w = mine[i];
    const Pack* y = x + 4 * i;
    const float part = dot_eight(w.x, y[0]) + dot_eight(w.y, y[1]) + dot_eight(w.z, y[2]) + dot_eight(w.w, y[3]);
    sum += __half2float(scale[i / 2]) * part;
  }
  sum = lanes_sum(sum);
  if (lane == 0) out[row] = sum;
}

// Four rows share what a lane has loaded of x.
__global__ void __launch_bounds__(128) four_rows(float* out, const Pack* x, const __half* scales, const uint4* weights,
                                                 int rows, int groups) {
  const int row = (blockIdx.x * 4 + threadIdx.x / 32) * 4, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum[4] = {};
  for (int i = lane; i < groups * 2; i += 32) {
    uint4 w[4];
    float s[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      w[r] = weights[int64_t{row + r} * groups * 2 + i];
      s[r] = __half2float(scales[int64_t{row + r} * groups + i / 2]);
    }
    float part[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const Pack p = x[4 * i + j];
      const float2 y[4] = {__half22float2(p.h[0]), __half22float2(p.h[1]), __half22float2(p.h[2]), __half22float2(p.h[3])};
#pragma unroll
      for (int r = 0; r < 4; ++r) part[r] += dot_eight(j == 0 ? w[r].x : j == 1 ? w[r].y : j == 2 ? w[r].z : w[r].w, y);
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) sum[r] += s[r] * part[r];
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) sum[r] = lanes_sum(sum[r]);
  if (lane == 0) *reinterpret_cast<float4*>(out + row) = make_float4(sum[0], sum[1], sum[2], sum[3]);
}

// Rows times 16 columns of an adapter: a thread for each result.
constexpr int RANK = 16;

__global__ void shrink_one(float* out, const __half2* adapter, const __half2* x, int rows, int pairs) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= rows * RANK) return;
  const __half2 *p = x + int64_t{i / RANK} * pairs, *q = adapter + i % RANK * pairs;
  float sum = 0.0f;
  for (int k = 0; k < pairs; ++k) {
    const float2 u = __half22float2(p[k]), v = __half22float2(q[k]);
    sum += u.x * v.x + u.y * v.y;
  }
  out[i] = sum;
}

// A warp for a row, with all 16 sums in each lane.
__global__ void shrink_warp(float* out, const __half2* adapter, const __half2* x, int rows, int pairs) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum[RANK] = {};
  for (int k = lane; k < pairs; k += 32) {
    const float2 u = __half22float2(x[int64_t{row} * pairs + k]);
#pragma unroll
    for (int r = 0; r < RANK; ++r) {
      const float2 v = __half22float2(adapter[r * pairs + k]);
      sum[r] += u.x * v.x + u.y * v.y;
    }
  }
#pragma unroll
  for (int r = 0; r < RANK; ++r) {
    const float all = lanes_sum(sum[r]);
    if (lane == r) out[row * RANK + r] = all;
  }
}

// Four rows a warp; the block's warps read the adapter from shared memory, 256 of its rows' numbers at a time.
__global__ void __launch_bounds__(128) shrink_shared(float* out, const Pack* adapter, const __half2* x, int pairs) {
  __shared__ __half2 part[RANK][128];
  const int t = threadIdx.x, lane = t % 32, row = (blockIdx.x * 4 + t / 32) * 4;
  float sum[4][RANK] = {};
  for (int base = 0; base < pairs; base += 128) {
    __syncthreads();
    for (int i = t; i < RANK * 32; i += 128)
      *reinterpret_cast<Pack*>(&part[i / 32][i % 32 * 4]) = adapter[(i / 32) * (pairs / 4) + base / 4 + i % 32];
    __syncthreads();
#pragma unroll
    for (int k = lane; k < 128; k += 32) {
      float2 u[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) u[j] = __half22float2(x[int64_t{row + j} * pairs + base + k]);
#pragma unroll
      for (int r = 0; r < RANK; ++r) {
        const float2 v = __half22float2(part[r][k]);
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[j][r] += u[j].x * v.x + u[j].y * v.y;
      }
    }
  }
#pragma unroll
  for (int j = 0; j < 4; ++j)
#pragma unroll
    for (int r = 0; r < RANK; ++r) {
      const float all = lanes_sum(sum[j][r]);
      if (lane == r) out[(row + j) * RANK + r] = all;
    }
}

// x [a, 512] times the transpose of w [b, 512]. Tiles of 32 x 32 in shared memory, multiplied as floats.
constexpr int INNER = 512;

__global__ void __launch_bounds__(256) linear_fma(__half* out, const __half* x, const __half* w, int columns) {
  __shared__ float p[32][33], q[32][33];
  const int tx = threadIdx.x % 32, ty = threadIdx.x / 32, left = blockIdx.x * 32, top = blockIdx.y * 32;
  float sum[4] = {};
  for (int base = 0; base < INNER; base += 32) {
#pragma unroll
    for (int j = 0; j < 32; j += 8) {
      p[ty + j][tx] = __half2float(x[int64_t{top + ty + j} * INNER + base + tx]);
      q[ty + j][tx] = __half2float(w[int64_t{left + ty + j} * INNER + base + tx]);
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < 32; ++k)
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[j] += p[ty + 8 * j][k] * q[tx][k];
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) out[int64_t{top + ty + 8 * j} * columns + left + tx] = __float2half(sum[j]);
}

using Left = wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major>;
using Right = wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major>;
using Sum = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

__device__ __forceinline__ void store_halves(__half* out, int columns, const Sum& sum) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, __half> rounded;
#pragma unroll
  for (int i = 0; i < sum.num_elements; ++i) rounded.x[i] = __float2half(sum.x[i]);
  wmma::store_matrix_sync(out, rounded, columns, wmma::mem_row_major);
}

// 64 x 64 a block of four warps by tensor cores; tiles come through registers.
__global__ void __launch_bounds__(128) linear_tensor(__half* out, const __half* x, const __half* w, int columns) {
  __shared__ __align__(32) __half p[64][40], q[64][40];
  const int t = threadIdx.x, warp = t / 32, left = blockIdx.x * 64, top = blockIdx.y * 64;
  const int y = warp / 2 * 32, z = warp % 2 * 32;
  Sum sum[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) wmma::fill_fragment(sum[i / 2][i % 2], 0.0f);
  for (int base = 0; base < INNER; base += 32) {
#pragma unroll
    for (int i = t; i < 256; i += 128) {
      const int r = i / 4, c = i % 4 * 8;
      *reinterpret_cast<Pack*>(&p[r][c]) = *reinterpret_cast<const Pack*>(x + int64_t{top + r} * INNER + base + c);
      *reinterpret_cast<Pack*>(&q[r][c]) = *reinterpret_cast<const Pack*>(w + int64_t{left + r} * INNER + base + c);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      Left l[2];
      Right r[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(l[i], &p[y + 16 * i][k], 40);
        wmma::load_matrix_sync(r[i], &q[z + 16 * i][k], 40);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) wmma::mma_sync(sum[i / 2][i % 2], l[i / 2], r[i % 2], sum[i / 2][i % 2]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    store_halves(out + int64_t{top + y + i / 2 * 16} * columns + left + z + i % 2 * 16, columns, sum[i / 2][i % 2]);
}

// 64 x 128 a block of four warps; while one pair of tiles is multiplied, the next is copied.
__global__ void __launch_bounds__(128) linear_copied(__half* out, const __half* x, const __half* w, int columns) {
  __shared__ __align__(32) __half p[2][64][40], q[2][128][40];
  const int t = threadIdx.x, warp = t / 32, left = blockIdx.x * 128, top = blockIdx.y * 64;
  const int y = warp / 2 * 32, z = warp % 2 * 64;
  auto fetch = [&](int stage, int base) {
#pragma unroll
    for (int i = t; i < 256; i += 128)
      __pipeline_memcpy_async(&p[stage][i / 4][i % 4 * 8], x + int64_t{top + i / 4} * INNER + base + i % 4 * 8, 16);
#pragma unroll
    for (int i = t; i < 512; i += 128)
      __pipeline_memcpy_async(&q[stage][i / 4][i % 4 * 8], w + int64_t{left + i / 4} * INNER + base + i % 4 * 8, 16);
    __pipeline_commit();
  };
  Sum sum[2][4];
#pragma unroll
  for (int i = 0; i < 8; ++i) wmma::fill_fragment(sum[i / 4][i % 4], 0.0f);
  fetch(0, 0);
  for (int step = 0; step < INNER / 32; ++step) {
    if (step + 1 < INNER / 32) {
      fetch((step + 1) % 2, (step + 1) * 32);
      __pipeline_wait_prior(1);
    } else {
      __pipeline_wait_prior(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      Left l[2];
      Right r[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(l[i], &p[step % 2][y + 16 * i][k], 40);
#pragma unroll
      for (int i = 0; i < 4; ++i) wmma::load_matrix_sync(r[i], &q[step % 2][z + 16 * i][k], 40);
#pragma unroll
      for (int i = 0; i < 8; ++i) wmma::mma_sync(sum[i / 4][i % 4], l[i / 4], r[i % 4], sum[i / 4][i % 4]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
    store_halves(out + int64_t{top + y + i / 4 * 16} * columns + left + z + i % 4 * 16, columns, sum[i / 4][i % 4]);
}

// Attention of each query of 64 numbers to all of its sequence, softmax online. A warp for a query.
__global__ void attention_warp(__half2* out, const __half2* q, const __half2* k, const __half2* v, int length, int queries) {
  const int query = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (query >= queries) return;
  const int64_t start = int64_t{query / length} * length;
  const float2 mine = __half22float2(q[int64_t{query} * 32 + lane]);
  float most = -1e30f, total = 0.0f;
  float2 sum = make_float2(0.0f, 0.0f);
  for (int i = 0; i < length; ++i) {
    const float2 key = __half22float2(k[(start + i) * 32 + lane]);
    const float score = lanes_sum(mine.x * key.x + mine.y * key.y) * 0.125f, larger = fmaxf(most, score);
    const float old = __expf(most - larger), weight = __expf(score - larger);
    const float2 value = __half22float2(v[(start + i) * 32 + lane]);
    sum.x = sum.x * old + weight * value.x, sum.y = sum.y * old + weight * value.y;
    total = total * old + weight;
    most = larger;
  }
  out[int64_t{query} * 32 + lane] = __floats2half2_rn(sum.x / total, sum.y / total);
}

// A thread for a query: it and its sum are in registers, keys and values are read by all lanes at once.
template <bool SHARED>
__global__ void __launch_bounds__(64) attention_thread(Pack* out, const Pack* q, const Pack* k, const Pack* v, int length) {
  __shared__ Pack tile[2][SHARED ? 32 * 8 : 1];
  const int t = threadIdx.x;
  const int64_t query = int64_t{blockIdx.x} * 64 + t, start = query / length * length;
  float2 mine[32], sum[32] = {};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const Pack x = q[query * 8 + j];
#pragma unroll
    for (int i = 0; i < 4; ++i) mine[4 * j + i] = __half22float2(x.h[i]);
  }
  float most = -1e30f, total = 0.0f;
  for (int base = 0; base < length; base += 32) {
    const Pack *keys = k + (start + base) * 8, *values = v + (start + base) * 8;
    if (SHARED) {
      __syncthreads();
#pragma unroll
      for (int i = t; i < 256; i += 64) tile[0][i] = keys[i], tile[1][i] = values[i];
      __syncthreads();
      keys = tile[0], values = tile[1];
    }
#pragma unroll 1
    for (int n = 0; n < 32; ++n) {
      float score = 0.0f;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const Pack x = keys[n * 8 + j];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 key = __half22float2(x.h[i]);
          score += mine[4 * j + i].x * key.x + mine[4 * j + i].y * key.y;
        }
      }
      score *= 0.125f;
      if (score > most) {
        const float old = __expf(most - score);
#pragma unroll
        for (int j = 0; j < 32; ++j) sum[j].x *= old, sum[j].y *= old;
        total *= old;
        most = score;
      }
      const float weight = __expf(score - most);
      total += weight;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const Pack x = values[n * 8 + j];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float2 value = __half22float2(x.h[i]);
          sum[4 * j + i].x += weight * value.x, sum[4 * j + i].y += weight * value.y;
        }
      }
    }
  }
  const float scale = 1.0f / total;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    Pack x;
#pragma unroll
    for (int i = 0; i < 4; ++i) x.h[i] = __floats2half2_rn(sum[4 * j + i].x * scale, sum[4 * j + i].y * scale);
    out[query * 8 + j] = x;
  }
}

// Weights of int8, a scale for each 128 x 128 of them, as halves.
__global__ void widen_one(__half* out, const float* scales, const int8_t* weights, int64_t n, int across) {
  const int64_t i = int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i >= n) return;
  const int columns = across * 128;
  const int row = i / columns, column = i % columns;
  out[i] = __float2half(weights[i] * scales[row / 128 * across + column / 128]);
}

__device__ __forceinline__ Pack widen(unsigned low, unsigned high, float scale) {
  Pack x;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const unsigned bits = (j < 2 ? low : high) >> 16 * (j % 2);
    x.h[j] = __floats2half2_rn(static_cast<int8_t>(bits) * scale, static_cast<int8_t>(bits >> 8) * scale);
  }
  return x;
}

__global__ void widen_sixteen(Pack* out, const float* scales, const uint4* weights, int n, int across) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int row = i / (across * 8), tile = i / 8 % across;
  const float scale = scales[row / 128 * across + tile];
  const uint4 w = weights[i];
  out[2 * i] = widen(w.x, w.y, scale);
  out[2 * i + 1] = widen(w.z, w.w, scale);
}

// A block for a tile: one scale; four loads are on the way at once, and stores of a warp are side by side.
__global__ void __launch_bounds__(256) widen_tile(Pack* out, const float* scales, const uint2* weights, int across) {
  const int t = threadIdx.x, column = t % 16;
  const float scale = scales[blockIdx.y * across + blockIdx.x];
  const int64_t at = (int64_t{blockIdx.y} * 128 + t / 16) * across * 16 + blockIdx.x * 16 + column;
  uint2 w[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) w[j] = weights[at + int64_t{j} * 16 * across * 16];
#pragma unroll
  for (int j = 0; j < 8; ++j) out[at + int64_t{j} * 16 * across * 16] = widen(w[j].x, w[j].y, scale);
}

}  // namespace

LAUNCHER(four_bits_block) {
  const __half* scales = (const __half*)in + 64 * b;
  four_block<<<a, 128, 0, stream>>>((float*)out, (const Pack*)in, scales, (const unsigned*)(scales + a * b), b);
  return cudaGetLastError();
}
LAUNCHER(four_bits_warp) {
  const __half* scales = (const __half*)in + 64 * b;
  four_warp<<<ceil_div(a, 8), 256, 0, stream>>>((float*)out, (const Pack*)in, scales, (const uint4*)(scales + a * b), a, b);
  return cudaGetLastError();
}
LAUNCHER(four_bits_rows) {
  const __half* scales = (const __half*)in + 64 * b;
  four_rows<<<ceil_div(a, 16), 128, 0, stream>>>((float*)out, (const Pack*)in, scales, (const uint4*)(scales + a * b), a, b);
  return cudaGetLastError();
}
LAUNCHER(adapter_shrink_each) {
  const __half2* x = (const __half2*)in + RANK * b / 2;
  shrink_one<<<ceil_div(a * RANK, 128), 128, 0, stream>>>((float*)out, (const __half2*)in, x, a, b / 2);
  return cudaGetLastError();
}
LAUNCHER(adapter_shrink_warp) {
  const __half2* x = (const __half2*)in + RANK * b / 2;
  shrink_warp<<<ceil_div(a, 8), 256, 0, stream>>>((float*)out, (const __half2*)in, x, a, b / 2);
  return cudaGetLastError();
}
LAUNCHER(adapter_shrink_shared) {
  const __half2* x = (const __half2*)in + RANK * b / 2;
  shrink_shared<<<a / 16, 128, 0, stream>>>((float*)out, (const Pack*)in, x, b / 2);
  return cudaGetLastError();
}
LAUNCHER(linear_layer_fma) {
  linear_fma<<<dim3(b / 32, a / 32), 256, 0, stream>>>((__half*)out, (const __half*)in, (const __half*)in + a * INNER, b);
  return cudaGetLastError();
}
LAUNCHER(linear_layer_tensor) {
  linear_tensor<<<dim3(b / 64, a / 64), 128, 0, stream>>>((__half*)out, (const __half*)in, (const __half*)in + a * INNER, b);
  return cudaGetLastError();
}
LAUNCHER(linear_layer_copied) {
  linear_copied<<<dim3(b / 128, a / 64), 128, 0, stream>>>((__half*)out, (const __half*)in, (const __half*)in + a * INNER, b);
  return cudaGetLastError();
}
LAUNCHER(short_attention_warp) {
  const __half2* q = (const __half2*)in;
  const int64_t n = a * b * 32;
  attention_warp<<<ceil_div(a * b, 4), 128, 0, stream>>>((__half2*)out, q, q + n, q + 2 * n, b, a * b);
  return cudaGetLastError();
}
LAUNCHER(short_attention_thread) {
  const Pack* q = (const Pack*)in;
  const int64_t n = a * b * 8;
  attention_thread<false><<<a * b / 64, 64, 0, stream>>>((Pack*)out, q, q + n, q + 2 * n, b);
  return cudaGetLastError();
}
LAUNCHER(short_attention_tile) {
  const Pack* q = (const Pack*)in;
  const int64_t n = a * b * 8;
  attention_thread<true><<<a * b / 64, 64, 0, stream>>>((Pack*)out, q, q + n, q + 2 * n, b);
  return cudaGetLastError();
}
LAUNCHER(weight_blocks_each) {
  const float* scales = (const float*)in;
  widen_one<<<a * b * 64, 256, 0, stream>>>((__half*)out, scales, (const int8_t*)(scales + a * b), a * b * 16384, b);
  return cudaGetLastError();
}
LAUNCHER(weight_blocks_sixteen) {
  const float* scales = (const float*)in;
  widen_sixteen<<<a * b * 4, 256, 0, stream>>>((Pack*)out, scales, (const uint4*)(scales + a * b), a * b * 1024, b);
  return cudaGetLastError();
}
LAUNCHER(weight_blocks_tile) {
  const float* scales = (const float*)in;
  widen_tile<<<dim3(b, a), 256, 0, stream>>>((Pack*)out, scales, (const uint2*)(scales + a * b), b);
  return cudaGetLastError();
}
