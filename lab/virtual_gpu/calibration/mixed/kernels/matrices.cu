// Small matrix products: square ones of fp32, tall bf16 ones with 64 columns, and a matrix times a vector.
#include <mma.h>

#include "common.cuh"

namespace {

// ---- fp32: p [n, n] times q [n, n], both by rows; n = a = b ----

__global__ void square_plain(float* out, const float* p, const float* q, int n) {
  const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float sum = 0.0f;
  for (int k = 0; k < n; ++k) sum += p[y * n + k] * q[k * n + x];
  out[y * n + x] = sum;
}

__global__ void square_tile(float* out, const float* p, const float* q, int n) {
  __shared__ float pt[16][16], qt[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
  float sum = 0.0f;
  for (int base = 0; base < n; base += 16) {
    pt[ty][tx] = p[y * n + base + tx];
    qt[ty][tx] = q[(base + ty) * n + x];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) sum += pt[ty][k] * qt[k][tx];
    __syncthreads();
  }
  out[y * n + x] = sum;
}

// 64 x 64 a block, 4 x 4 a thread; p's tile is stored by columns, so that both are read four at a time.
__global__ void __launch_bounds__(256) square_block(float* out, const float* p, const float* q, int n) {
  __shared__ float pt[16][68], qt[16][64];
  const int t = threadIdx.x, x = t % 16 * 4, y = t / 16 * 4, left = blockIdx.x * 64, top = blockIdx.y * 64;
  float sum[4][4] = {};
  for (int base = 0; base < n; base += 16) {
    const float4 u = *reinterpret_cast<const float4*>(p + (top + t / 4) * n + base + t % 4 * 4);
    const float4 v = *reinterpret_cast<const float4*>(q + (base + t / 16) * n + left + x);
    const int k0 = t % 4 * 4;
    pt[k0][t / 4] = u.x, pt[k0 + 1][t / 4] = u.y, pt[k0 + 2][t / 4] = u.z, pt[k0 + 3][t / 4] = u.w;
    *reinterpret_cast<float4*>(&qt[t / 16][x]) = v;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const float4 r = *reinterpret_cast<const float4*>(&pt[k][y]), s = *reinterpret_cast<const float4*>(&qt[k][x]);
      const float rows[4] = {r.x, r.y, r.z, r.w}, columns[4] = {s.x, s.y, s.z, s.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += rows[i] * columns[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<float4*>(out + (top + y + i) * n + left + x) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// ---- bf16: w [b, 64], then x [a, b]; x w to fp32 [a, 64] ----

__global__ void tall_plain(float* out, const bf16* w, const bf16* x, int inner) {
  const int column = threadIdx.x, row = blockIdx.x * 4 + threadIdx.y;
  const bf16* mine = x + int64_t{row} * inner;
  float sum = 0.0f;
  for (int k = 0; k < inner; ++k) sum += __bfloat162float(mine[k]) * __bfloat162float(w[k * 64 + column]);
  out[int64_t{row} * 64 + column] = sum;
}

// 64 rows a block, widened to fp32 in shared memory, 4 x 4 a thread.
__global__ void __launch_bounds__(256) tall_tile(float* out, const bf16* w, const bf16* x, int inner) {
  __shared__ float xt[32][65], wt[32][64];
  const int t = threadIdx.x, column = t % 16 * 4, row = t / 16 * 4;
  const int64_t top = int64_t{blockIdx.x} * 64;
  float sum[4][4] = {};
  for (int base = 0; base < inner; base += 32) {
    const Eight e{*reinterpret_cast<const uint4*>(x + (top + t / 4) * inner + base + t % 4 * 8)};
    const Eight f{*reinterpret_cast<const uint4*>(w + (base + t / 8) * 64 + t % 8 * 8)};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 u = __bfloat1622float2(e.pair[k]), v = __bfloat1622float2(f.pair[k]);
      xt[t % 4 * 8 + 2 * k][t / 4] = u.x, xt[t % 4 * 8 + 2 * k + 1][t / 4] = u.y;
      wt[t / 8][t % 8 * 8 + 2 * k] = v.x, wt[t / 8][t % 8 * 8 + 2 * k + 1] = v.y;
    }
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < 32; ++k) {
      float u[4], v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) u[i] = xt[k][row + i], v[i] = wt[k][column + i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[i][j] += u[i] * v[j];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<float4*>(out + (top + row + i) * 64 + column) = make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

// The same tiles as bf16, four warps of 16 rows each on tensor cores.
__global__ void __launch_bounds__(128) tall_wmma(float* out, const bf16* w, const bf16* x, int inner) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) bf16 xt[64][40], wt[32][72];
  const int t = threadIdx.x, warp = t / 32;
  const int64_t top = int64_t{blockIdx.x} * 64;
  fragment<accumulator, 16, 16, 16, float> sum[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) fill_fragment(sum[j], 0.0f);
  for (int base = 0; base < inner; base += 32) {
#pragma unroll
    for (int i = t; i < 256; i += 128) {
      *reinterpret_cast<uint4*>(&xt[i / 4][i % 4 * 8]) = *reinterpret_cast<const uint4*>(x + (top + i / 4) * inner + base + i % 4 * 8);
      *reinterpret_cast<uint4*>(&wt[i / 8][i % 8 * 8]) = *reinterpret_cast<const uint4*>(w + (base + i / 8) * 64 + i % 8 * 8);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
      fragment<matrix_a, 16, 16, 16, bf16, row_major> p;
      load_matrix_sync(p, &xt[warp * 16][k], 40);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        fragment<matrix_b, 16, 16, 16, bf16, row_major> q;
        load_matrix_sync(q, &wt[k][j * 16], 72);
        mma_sync(sum[j], p, q, sum[j]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) store_matrix_sync(out + (top + warp * 16) * 64 + j * 16, sum[j], 64, mem_row_major);
}

// ---- bf16: v [b], then m [a, b]; m v to fp32 [a] ----

__device__ __forceinline__ float dot(uint4 p, uint4 q) {
  const Eight x{p}, y{q};
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 f = __bfloat1622float2(x.pair[k]), g = __bfloat1622float2(y.pair[k]);
    sum = fmaf(f.x, g.x, fmaf(f.y, g.y, sum));
  }
  return sum;
}

__global__ void vector_block(float* out, const bf162* v, const bf162* m, int pairs) {
  __shared__ float of_warp[4];
  const bf162* row = m + int64_t{blockIdx.x} * pairs;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < pairs; i += 128) {
    const float2 f = __bfloat1622float2(row[i]), g = __bfloat1622float2(v[i]);
    sum += f.x * g.x + f.y * g.y;
  }
  sum = sum_lanes(sum);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = of_warp[0] + of_warp[1] + of_warp[2] + of_warp[3];
}

__global__ void vector_warp(float* out, const uint4* v, const uint4* m, int rows, int vectors) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const uint4* mine = m + int64_t{row} * vectors;
  float sum = 0.0f;
#pragma unroll 2
  for (int i = lane; i < vectors; i += 32) sum += dot(mine[i], v[i]);
  sum = sum_lanes(sum);
  if (lane == 0) out[row] = sum;
}

// Two rows a warp share what is loaded of v.
__global__ void vector_two_rows(float* out, const uint4* v, const uint4* m, int rows, int vectors) {
  const int row = (blockIdx.x * 8 + threadIdx.x / 32) * 2, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const uint4* mine = m + int64_t{row} * vectors;
  float first = 0.0f, second = 0.0f;
#pragma unroll 4
  for (int i = lane; i < vectors; i += 32) {
    const uint4 x = v[i];
    first += dot(mine[i], x);
    second += dot(mine[vectors + i], x);
  }
  first = sum_lanes(first), second = sum_lanes(second);
  if (lane == 0) *reinterpret_cast<float2*>(out + row) = make_float2(first, second);
}

}  // namespace

LAUNCHER(square_product_plain) {
  square_plain<<<dim3(a / 16, a / 16), dim3(16, 16), 0, stream>>>((float*)out, (const float*)in, (const float*)in + a * a, a);
  return cudaGetLastError();
}
LAUNCHER(square_product_tile) {
  square_tile<<<dim3(a / 16, a / 16), dim3(16, 16), 0, stream>>>((float*)out, (const float*)in, (const float*)in + a * a, a);
  return cudaGetLastError();
}
LAUNCHER(square_product_block) {
  square_block<<<dim3(a / 64, a / 64), 256, 0, stream>>>((float*)out, (const float*)in, (const float*)in + a * a, a);
  return cudaGetLastError();
}
LAUNCHER(tall_product_plain) {
  tall_plain<<<a / 4, dim3(64, 4), 0, stream>>>((float*)out, (const bf16*)in, (const bf16*)in + 64 * b, b);
  return cudaGetLastError();
}
LAUNCHER(tall_product_tile) {
  tall_tile<<<a / 64, 256, 0, stream>>>((float*)out, (const bf16*)in, (const bf16*)in + 64 * b, b);
  return cudaGetLastError();
}
LAUNCHER(tall_product_wmma) {
  tall_wmma<<<a / 64, 128, 0, stream>>>((float*)out, (const bf16*)in, (const bf16*)in + 64 * b, b);
  return cudaGetLastError();
}
LAUNCHER(matrix_vector_block) {
  vector_block<<<a, 128, 0, stream>>>((float*)out, (const bf162*)in, (const bf162*)in + b / 2, b / 2);
  return cudaGetLastError();
}
LAUNCHER(matrix_vector_warp) {
  vector_warp<<<div_up(a, 4), 128, 0, stream>>>((float*)out, (const uint4*)in, (const uint4*)in + b / 8, a, b / 8);
  return cudaGetLastError();
}
LAUNCHER(matrix_vector_two_rows) {
  vector_two_rows<<<div_up(a, 16), 256, 0, stream>>>((float*)out, (const uint4*)in, (const uint4*)in + b / 8, a, b / 8);
  return cudaGetLastError();
}
