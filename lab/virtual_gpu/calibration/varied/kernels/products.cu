// Small matrix products: with and without tensor cores, in batches, with few rows; distances; outer products.
#include "../../general/kernels/common.cuh"

namespace {

// a products p q' of 16 x 16 halves: sums in fp32.
__global__ void batch_shared(float* out, const __half* in) {
  __shared__ float p[16][17], q[16][17];
  const int i = threadIdx.x / 16, j = threadIdx.x % 16;
  p[i][j] = __half2float(in[int64_t{blockIdx.x} * 512 + threadIdx.x]);
  q[i][j] = __half2float(in[int64_t{blockIdx.x} * 512 + 256 + threadIdx.x]);
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 16; ++k) sum += p[i][k] * q[j][k];
  out[int64_t{blockIdx.x} * 256 + threadIdx.x] = sum;
}
__global__ void batch_direct(float* out, const __half* in) {
  const int64_t at = int64_t{blockIdx.x} * 512;
  const uint4* p = reinterpret_cast<const uint4*>(in + at) + threadIdx.x / 16 * 2;
  const uint4* q = reinterpret_cast<const uint4*>(in + at + 256) + threadIdx.x % 16 * 2;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const uint4 x = p[k], y = q[k];
    const __half2* u = reinterpret_cast<const __half2*>(&x);
    const __half2* v = reinterpret_cast<const __half2*>(&y);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 f = __half22float2(u[j]), g = __half22float2(v[j]);
      sum += f.x * g.x + f.y * g.y;
    }
  }
  out[int64_t{blockIdx.x} * 256 + threadIdx.x] = sum;
}
__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&p)[4], const unsigned (&q)[2]) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(q[0]), "r"(q[1]));
}
__device__ __forceinline__ unsigned pair_at(const __half* p) { return *reinterpret_cast<const unsigned*>(p); }

// Rows of both from memory, `stride` halves apart: 16 x 8 sums.
__device__ __forceinline__ void step(float (&d)[4], const __half* p, const __half* q, int stride) {
  const unsigned x[4] = {pair_at(p), pair_at(p + 8 * stride), pair_at(p + 8), pair_at(p + 8 * stride + 8)};
  const unsigned y[2] = {pair_at(q), pair_at(q + 8)};
  multiply(d, x, y);
}
__global__ void batch_mma(float* out, const __half* in, int batch) {
  const int b = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, inner = lane % 4 * 2;
  if (b >= batch) return;
  const __half* p = in + int64_t{b} * 512 + group * 16 + inner;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    float d[4] = {};
    step(d, p, p + 256 + j * 128, 16);
    float* to = out + int64_t{b} * 256 + group * 16 + j * 8 + inner;
    *reinterpret_cast<float2*>(to) = make_float2(d[0], d[1]);
    *reinterpret_cast<float2*>(to + 128) = make_float2(d[2], d[3]);
  }
}

// Products of halves, a x a: 64 x 64 a block of four warps, rows of 32 in shared memory.
__device__ __forceinline__ void fetch(__half (*tile)[40], const __half* from, int n) {
#pragma unroll
  for (int i = threadIdx.x; i < 256; i += 128)
    *reinterpret_cast<uint4*>(&tile[i / 4][i % 4 * 8]) = *reinterpret_cast<const uint4*>(from + int64_t{i / 4} * n + i % 4 * 8);
}
// c = p q', both with rows along k.
__global__ void halves_mma(float* c, const __half* p, const __half* q, int n) {
  __shared__ __half pt[64][40], qt[64][40];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, inner = lane % 4;
  float d[8][4] = {};
  for (int k = 0; k < n; k += 32) {
    fetch(pt, p + int64_t{blockIdx.y} * 64 * n + k, n);
    fetch(qt, q + int64_t{blockIdx.x} * 64 * n + k, n);
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 32; kk += 16) {
      const __half* row = &pt[warp * 16 + group][kk + inner * 2];
      const unsigned x[4] = {pair_at(row), pair_at(row + 8 * 40), pair_at(row + 8), pair_at(row + 8 * 40 + 8)};
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const __half* column = &qt[j * 8 + group][kk + inner * 2];
        const unsigned y[2] = {pair_at(column), pair_at(column + 8)};
        multiply(d[j], x, y);
      }
    }
    __syncthreads();
  }
  const int row = blockIdx.y * 64 + warp * 16 + group;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int column = blockIdx.x * 64 + j * 8 + inner * 2;
    *reinterpret_cast<float2*>(c + int64_t{row} * n + column) = make_float2(d[j][0], d[j][1]);
    *reinterpret_cast<float2*>(c + int64_t{row + 8} * n + column) = make_float2(d[j][2], d[j][3]);
  }
}
// The same without shared memory: 16 x 32 a warp.
__global__ void halves_direct(float* c, const __half* p, const __half* q, int n) {
  const int lane = threadIdx.x % 32, group = lane / 4, inner = lane % 4 * 2;
  const int row = (blockIdx.y * 4 + threadIdx.x / 32) * 16 + group, column = blockIdx.x * 32 + group;
  float d[4][4] = {};
#pragma unroll 2
  for (int k = 0; k < n; k += 16)
#pragma unroll
    for (int j = 0; j < 4; ++j) step(d[j], p + int64_t{row} * n + k + inner, q + int64_t{column + 8 * j} * n + k + inner, n);
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    float* to = c + int64_t{row} * n + blockIdx.x * 32 + j * 8 + inner;
    *reinterpret_cast<float2*>(to) = make_float2(d[j][0], d[j][1]);
    *reinterpret_cast<float2*>(to + 8 * int64_t{n}) = make_float2(d[j][2], d[j][3]);
  }
}
__global__ void halves_fma(float* c, const __half* p, const __half* q, int n) {
  __shared__ float pt[32][33], qt[32][33];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  float sum[2][2] = {};
  for (int k = 0; k < n; k += 32) {
    for (int i = threadIdx.x; i < 1024; i += 256) {
      pt[i / 32][i % 32] = __half2float(p[int64_t{blockIdx.y * 32 + i / 32} * n + k + i % 32]);
      qt[i / 32][i % 32] = __half2float(q[int64_t{blockIdx.x * 32 + i / 32} * n + k + i % 32]);
    }
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < 32; ++i)
#pragma unroll
      for (int u = 0; u < 2; ++u)
#pragma unroll
        for (int v = 0; v < 2; ++v) sum[u][v] += pt[y + 16 * u][i] * qt[x + 16 * v][i];
    __syncthreads();
  }
#pragma unroll
  for (int u = 0; u < 2; ++u)
#pragma unroll
    for (int v = 0; v < 2; ++v) c[int64_t{blockIdx.y * 32 + y + 16 * u} * n + blockIdx.x * 32 + x + 16 * v] = sum[u][v];
}

// Eight rows of b halves times a matrix of a rows: a warp a result column, or a block with split sums.
__global__ void few_rows_warp(float* out, const __half2* m, const __half2* x, int rows, int pairs) {
  const int r = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  float sum[8] = {};
  for (int i = lane; i < pairs; i += 32) {
    const float2 w = __half22float2(m[int64_t{r} * pairs + i]);
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      const float2 y = __half22float2(x[t * pairs + i]);
      sum[t] += w.x * y.x + w.y * y.y;
    }
  }
#pragma unroll
  for (int t = 0; t < 8; ++t) {
    sum[t] = warp_sum(sum[t]);
    if (lane == 0) out[t * rows + r] = sum[t];
  }
}
__global__ void few_rows_mma(float* out, const __half* m, const __half* x, int rows, int columns) {
  const int row = (blockIdx.x * 4 + threadIdx.x / 32) * 16, lane = threadIdx.x % 32, group = lane / 4, inner = lane % 4;
  if (row >= rows) return;
  float d[4] = {};
  const __half* p = m + int64_t{row + group} * columns + inner * 2;
  const __half* q = x + int64_t{group} * columns + inner * 2;
#pragma unroll 4
  for (int k = 0; k < columns; k += 16) {
    const unsigned a[4] = {pair_at(p + k), pair_at(p + k + 8 * columns), pair_at(p + k + 8), pair_at(p + k + 8 * columns + 8)};
    const unsigned b[2] = {pair_at(q + k), pair_at(q + k + 8)};
    multiply(d, a, b);
  }
  out[inner * 2 * rows + row + group] = d[0], out[(inner * 2 + 1) * rows + row + group] = d[1];
  out[inner * 2 * rows + row + group + 8] = d[2], out[(inner * 2 + 1) * rows + row + group + 8] = d[3];
}

// Squared distances between a points of 16 numbers and a others.
__global__ void distances_global(float* out, const float4* in, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float4 p = in[y * 4 + k], q = in[(n + x) * 4 + k];
    sum += (p.x - q.x) * (p.x - q.x) + (p.y - q.y) * (p.y - q.y) + (p.z - q.z) * (p.z - q.z) + (p.w - q.w) * (p.w - q.w);
  }
  out[int64_t{y} * n + x] = sum;
}
__global__ void distances_registers(float* out, const float4* in, int n) {
  const int x = blockIdx.x * 128 + threadIdx.x;
  float4 q[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) q[k] = in[(n + x) * 4 + k];
#pragma unroll 2
  for (int y = blockIdx.y * 16; y < blockIdx.y * 16 + 16; ++y) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float4 p = in[y * 4 + k];
      sum += (p.x - q[k].x) * (p.x - q[k].x) + (p.y - q[k].y) * (p.y - q[k].y) + (p.z - q[k].z) * (p.z - q[k].z) +
             (p.w - q[k].w) * (p.w - q[k].w);
    }
    out[int64_t{y} * n + x] = sum;
  }
}

// Outer product of two vectors, added to a matrix.
__global__ void outer_words(float* out, const float* in, int columns) {
  const int x = blockIdx.x * 256 + threadIdx.x;
  out[int64_t{blockIdx.y} * columns + x] = in[x] * in[blockIdx.y] + in[int64_t{blockIdx.y} * columns + x];
}
__global__ void outer_fours(float4* out, const float4* in, int vectors) {
  const int x = blockIdx.x * 128 + threadIdx.x;
  const float4 p = in[x];
#pragma unroll
  for (int y = blockIdx.y * 4; y < blockIdx.y * 4 + 4; ++y) {
    const float s = reinterpret_cast<const float*>(in)[y];
    const float4 c = in[int64_t{y} * vectors + x];
    out[int64_t{y} * vectors + x] = make_float4(p.x * s + c.x, p.y * s + c.y, p.z * s + c.z, p.w * s + c.w);
  }
}

// Only what lies on or below the diagonal, with a softmax by rows: a x a.
__global__ void causal_all(float* out, const float* in, int n) {
  __shared__ float room[32];
  const float* row = in + int64_t{blockIdx.x} * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 128) sum += i <= blockIdx.x ? __expf(row[i]) : 0.0f;
  sum = sum_of_block(sum, room);
  if (threadIdx.x == 0) room[0] = 1.0f / sum;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 128) out[int64_t{blockIdx.x} * n + i] = i <= blockIdx.x ? __expf(row[i]) * room[0] : 0.0f;
}
__global__ void causal_short(float* out, const float* in, int n) {
  __shared__ float room[32];
  const float* row = in + int64_t{blockIdx.x} * n;
  const int length = blockIdx.x + 1;
  float sum = 0;
  for (int i = threadIdx.x; i < length; i += 128) sum += __expf(row[i]);
  sum = sum_of_block(sum, room);
  if (threadIdx.x == 0) room[0] = 1.0f / sum;
  __syncthreads();
  for (int i = threadIdx.x; i < length; i += 128) out[int64_t{blockIdx.x} * n + i] = __expf(row[i]) * room[0];
}

}  // namespace

#define FLOATS (float*)out, (const float*)in
#define HALVES (float*)out, (const __half*)in, (const __half*)in + a * a
LAUNCHER(small_products_from_shared) { LAUNCH(batch_shared, a, 256, (float*)out, (const __half*)in); }
LAUNCHER(small_products_from_global) { LAUNCH(batch_direct, a, 256, (float*)out, (const __half*)in); }
LAUNCHER(small_products_by_mma) { LAUNCH(batch_mma, cover(a, 8), 256, (float*)out, (const __half*)in, a); }
LAUNCHER(halves_by_mma) { LAUNCH(halves_mma, dim3(a / 64, a / 64), 128, HALVES, a); }
LAUNCHER(halves_by_mma_alone) { LAUNCH(halves_direct, dim3(a / 32, a / 64), 128, HALVES, a); }
LAUNCHER(halves_by_fma) { LAUNCH(halves_fma, dim3(a / 32, a / 32), 256, HALVES, a); }
LAUNCHER(few_rows_by_warps) { LAUNCH(few_rows_warp, cover(a, 4), 128, (float*)out, (const __half2*)in, (const __half2*)in, a, b / 2); }
LAUNCHER(few_rows_by_mma) { LAUNCH(few_rows_mma, cover(a, 64), 128, (float*)out, (const __half*)in, (const __half*)in, a, b); }
LAUNCHER(distances_each) { LAUNCH(distances_global, dim3(a / 32, a / 8), dim3(32, 8), (float*)out, (const float4*)in, a); }
LAUNCHER(distances_by_columns) { LAUNCH(distances_registers, dim3(a / 128, a / 16), 128, (float*)out, (const float4*)in, a); }
LAUNCHER(outer_by_words) { LAUNCH(outer_words, dim3(b / 256, a), 256, FLOATS, b); }
LAUNCHER(outer_by_fours) { LAUNCH(outer_fours, dim3(b / 512, a / 4), 128, (float4*)out, (const float4*)in, b / 4); }
LAUNCHER(causal_full_rows) { LAUNCH(causal_all, a, 128, FLOATS, a); }
LAUNCHER(causal_short_rows) { LAUNCH(causal_short, a, 128, FLOATS, a); }
