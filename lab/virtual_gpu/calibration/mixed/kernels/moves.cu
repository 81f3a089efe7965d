// What only moves data: a transpose of bf16, rows of an embedding, single elements, pages of keys.
#include "common.cuh"

namespace {

// ---- bf16 [a, b] to [b, a] ----

__global__ void turn_plain(bf16* out, const bf16* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  out[int64_t{x} * rows + y] = in[int64_t{y} * columns + x];
}

template <int PAD>
__global__ void turn_tile(bf16* out, const bf16* in, int rows, int columns) {
  __shared__ bf16 tile[32][32 + PAD];
  const int left = blockIdx.x * 32, top = blockIdx.y * 32;
#pragma unroll
  for (int j = threadIdx.y; j < 32; j += 8) tile[j][threadIdx.x] = in[int64_t{top + j} * columns + left + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int j = threadIdx.y; j < 32; j += 8) out[int64_t{left + j} * rows + top + threadIdx.x] = tile[threadIdx.x][j];
}

// 64 x 64, two neighbours at a time on both sides.
__global__ void turn_pairs(bf162* out, const bf162* in, int rows, int columns) {
  __shared__ bf16 tile[64][66];
  const int left = blockIdx.x * 64, top = blockIdx.y * 64, x = threadIdx.x;
#pragma unroll
  for (int j = threadIdx.y; j < 64; j += 8) {
    const bf162 pair = in[(int64_t{top + j} * columns + left) / 2 + x];
    *reinterpret_cast<bf162*>(&tile[j][2 * x]) = pair;
  }
  __syncthreads();
#pragma unroll
  for (int j = threadIdx.y; j < 64; j += 8) {
    const bf162 pair = __halves2bfloat162(tile[2 * x][j], tile[2 * x + 1][j]);
    out[(int64_t{left + j} * rows + top) / 2 + x] = pair;
  }
}

// ---- rows of an embedding: ids int32 [a], table bf16 [a, b], to bf16 [a, b] ----

__global__ void embed_scalar(bf16* out, const int* ids, const bf16* table, int columns) {
  const int64_t from = int64_t{ids[blockIdx.x]} * columns, to = int64_t{blockIdx.x} * columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[to + i] = table[from + i];
}

__global__ void embed_eights(uint4* out, const int* ids, const uint4* table, int vectors) {
  const int64_t from = int64_t{ids[blockIdx.x]} * vectors, to = int64_t{blockIdx.x} * vectors;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) out[to + i] = table[from + i];
}

// A warp a row, four loads of 16 bytes on their way together.
__global__ void embed_warp(uint4* out, const int* ids, const uint4* table, int rows, int vectors) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const uint4* from = table + int64_t{ids[row]} * vectors + lane;
  uint4* to = out + int64_t{row} * vectors + lane;
  for (int i = 0; i < vectors; i += 128) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = __ldg(from + i + 32 * k);
#pragma unroll
    for (int k = 0; k < 4; ++k) to[i + 32 * k] = v[k];
  }
}

// ---- single elements: ids int32 [n], values fp32 [n], to fp32 [n], n = a b ----

__global__ void pick_one(float* out, const int* ids, const float* values, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = values[ids[i]];
}

__global__ void pick_four(float4* out, const int4* ids, const float* values, int quads) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= quads) return;
  const int4 at = ids[i];
  out[i] = make_float4(__ldg(values + at.x), __ldg(values + at.y), __ldg(values + at.z), __ldg(values + at.w));
}

// ---- a pages of a cache, 16 rows of b bf16 each: table int32 [a], cache [a, 16, b], to [a, 16, b] in the table's order ----

__global__ void pages_row(uint4* out, const int* table, const uint4* cache, int vectors) {
  const int row = blockIdx.x;
  const int64_t from = (int64_t{table[row / 16]} * 16 + row % 16) * vectors;
  for (int i = threadIdx.x; i < vectors; i += 64) out[int64_t{row} * vectors + i] = cache[from + i];
}

// A page is one run of memory: a block copies it whole.
__global__ void pages_whole(uint4* out, const int* table, const uint4* cache, int vectors) {
  const int run = 16 * vectors;
  const uint4* from = cache + int64_t{table[blockIdx.x]} * run;
  uint4* to = out + int64_t{blockIdx.x} * run;
#pragma unroll 4
  for (int i = threadIdx.x; i < run; i += 256) to[i] = from[i];
}

}  // namespace

LAUNCHER(bf16_turn_plain) {
  turn_plain<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>((bf16*)out, (const bf16*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(bf16_turn_tile) {
  turn_tile<0><<<dim3(b / 32, a / 32), dim3(32, 8), 0, stream>>>((bf16*)out, (const bf16*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(bf16_turn_padded) {
  turn_tile<2><<<dim3(b / 32, a / 32), dim3(32, 8), 0, stream>>>((bf16*)out, (const bf16*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(bf16_turn_pairs) {
  turn_pairs<<<dim3(b / 64, a / 64), dim3(32, 8), 0, stream>>>((bf162*)out, (const bf162*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(token_rows_scalar) {
  embed_scalar<<<a, 256, 0, stream>>>((bf16*)out, (const int*)in, (const bf16*)((const int*)in + a), b);
  return cudaGetLastError();
}
LAUNCHER(token_rows_eights) {
  embed_eights<<<a, 256, 0, stream>>>((uint4*)out, (const int*)in, (const uint4*)((const int*)in + a), b / 8);
  return cudaGetLastError();
}
LAUNCHER(token_rows_warp) {
  embed_warp<<<div_up(a, 4), 128, 0, stream>>>((uint4*)out, (const int*)in, (const uint4*)((const int*)in + a), a, b / 8);
  return cudaGetLastError();
}
LAUNCHER(elements_one) {
  pick_one<<<div_up(a * b, 256), 256, 0, stream>>>((float*)out, (const int*)in, (const float*)in + a * b, a * b);
  return cudaGetLastError();
}
LAUNCHER(elements_four) {
  pick_four<<<div_up(a * b / 4, 128), 128, 0, stream>>>((float4*)out, (const int4*)in, (const float*)in + a * b, a * b / 4);
  return cudaGetLastError();
}
LAUNCHER(cache_pages_by_row) {
  pages_row<<<16 * a, 64, 0, stream>>>((uint4*)out, (const int*)in, (const uint4*)((const int*)in + a), b / 8);
  return cudaGetLastError();
}
LAUNCHER(cache_pages_whole) {
  pages_whole<<<a, 256, 0, stream>>>((uint4*)out, (const int*)in, (const uint4*)((const int*)in + a), b / 8);
  return cudaGetLastError();
}
