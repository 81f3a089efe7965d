// What language and vision models run between their matrix products.
#include "../../general/kernels/common.cuh"

namespace {

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, lanes));
  return x;
}
__device__ __forceinline__ float warp_total(float x) {
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) x += __shfl_xor_sync(~0u, x, lanes);
  return x;
}
// For every thread of a block of up to 1,024; `room` holds 33 floats.
__device__ __forceinline__ float block_total(float x, float* room) {
  x = warp_total(x);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x < 32) {
    x = warp_total(threadIdx.x < blockDim.x / 32 ? room[threadIdx.x] : 0.0f);
    if (threadIdx.x == 0) room[32] = x;
  }
  __syncthreads();
  return room[32];
}

// -log of the probability of one word of each row.
__global__ void loss_two_passes(float* out, const float* in, int columns) {
  __shared__ float room[33];
  const float* row = in + int64_t{blockIdx.x} * columns;
  float most = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256) most = fmaxf(most, row[i]);
  most = warp_max(most);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = most;
  __syncthreads();
  most = room[0];
#pragma unroll
  for (int w = 1; w < 8; ++w) most = fmaxf(most, room[w]);
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += 256) sum += __expf(row[i] - most);
  sum = block_total(sum, room);
  if (threadIdx.x == 0) out[blockIdx.x] = __logf(sum) + most - row[blockIdx.x * 97 % columns];
}

__global__ void loss_online(float* out, const float4* in, int vectors) {
  __shared__ float room[33], mosts[8];
  const float4* row = in + int64_t{blockIdx.x} * vectors;
  float most = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < vectors; i += 256) {
    const float4 x = row[i];
    const float larger = fmaxf(most, fmaxf(fmaxf(x.x, x.y), fmaxf(x.z, x.w)));
    sum = sum * __expf(most - larger) + __expf(x.x - larger) + __expf(x.y - larger) + __expf(x.z - larger) +
          __expf(x.w - larger);
    most = larger;
  }
  const float of_warp = warp_max(most);
  if (threadIdx.x % 32 == 0) mosts[threadIdx.x / 32] = of_warp;
  __syncthreads();
  float largest = mosts[0];
#pragma unroll
  for (int w = 1; w < 8; ++w) largest = fmaxf(largest, mosts[w]);
  sum = block_total(sum * __expf(most - largest), room);
  if (threadIdx.x == 0)
    out[blockIdx.x] = __logf(sum) + largest - reinterpret_cast<const float*>(row)[blockIdx.x * 97 % (4 * vectors)];
}

__global__ void loss_warp(float* out, const float4* in, int rows, int vectors) {
  const int r = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  const float4* row = in + int64_t{r} * vectors;
  float sum = 0;
#pragma unroll 4
  for (int i = lane; i < vectors; i += 32) {
    const float4 x = row[i];
    sum += __expf(x.x) + __expf(x.y) + __expf(x.z) + __expf(x.w);
  }
  sum = warp_total(sum);
  if (lane == 0) out[r] = __logf(sum) - reinterpret_cast<const float*>(row)[r * 97 % (4 * vectors)];
}

// The four largest of each row.
__device__ __forceinline__ void insert(float (&best)[4], float x) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float larger = fmaxf(best[k], x);
    x = fminf(best[k], x), best[k] = larger;
  }
}

__global__ void top_thread(float4* out, const float* in, int rows, int columns) {
  const int r = blockIdx.x * 64 + threadIdx.x;
  if (r >= rows) return;
  float best[4] = {-1, -1, -1, -1};
  for (int i = 0; i < columns; ++i) insert(best, in[int64_t{r} * columns + i]);
  out[r] = make_float4(best[0], best[1], best[2], best[3]);
}

__global__ void top_warp(float4* out, const float* in, int rows, int columns) {
  const int r = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  float best[4] = {-1, -1, -1, -1};
  for (int i = lane; i < columns; i += 32) insert(best, in[int64_t{r} * columns + i]);
#pragma unroll
  for (int lanes = 16; lanes; lanes /= 2) {
    float other[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) other[k] = __shfl_xor_sync(~0u, best[k], lanes);
#pragma unroll
    for (int k = 0; k < 4; ++k) insert(best, other[k]);
  }
  if (lane == 0) out[r] = make_float4(best[0], best[1], best[2], best[3]);
}

__global__ void top_rounds(float4* out, const float* in, int columns) {
  __shared__ float key[1024], mosts[8];
  for (int i = threadIdx.x; i < columns; i += 256) key[i] = in[int64_t{blockIdx.x} * columns + i];
  float found[4];
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    __syncthreads();
    float most = -1;
    int at = 0;
    for (int i = threadIdx.x; i < columns; i += 256)
      if (key[i] > most) most = key[i], at = i;
    const float of_warp = warp_max(most);
    if (threadIdx.x % 32 == 0) mosts[threadIdx.x / 32] = of_warp;
    __syncthreads();
    float largest = mosts[0];
#pragma unroll
    for (int w = 1; w < 8; ++w) largest = fmaxf(largest, mosts[w]);
    if (most == largest) key[at] = -1;
    found[k] = largest;
  }
  if (threadIdx.x == 0) out[blockIdx.x] = make_float4(found[0], found[1], found[2], found[3]);
}

// Four bits a number, a scale for each 32 of them.
__global__ void int4_by_number(__half* out, const uint8_t* in, const __half* scales, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int bits = in[i / 2] >> (i % 2 * 4) & 15;
  out[i] = __float2half((bits - 8) * __half2float(scales[i / 32]));
}

__global__ void int4_by_word(uint4* out, const unsigned* in, const __half* scales, int words) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= words) return;
  const unsigned word = in[i];
  const __half2 scale = __half2half2(scales[i / 4]);
  uint4 result;
  __half2* pairs = reinterpret_cast<__half2*>(&result);
#pragma unroll
  for (int k = 0; k < 4; ++k)
    pairs[k] = __hmul2(__halves2half2(__int2half_rn(int(word >> 8 * k & 15) - 8), __int2half_rn(int(word >> (8 * k + 4) & 15) - 8)), scale);
  out[i] = result;
}

// Pairs of halves of a head of 128 turn by an angle from a table.
__global__ void turn_scalar(__half* out, const __half* in, const float* table, int heads) {
  const int64_t at = (int64_t{blockIdx.x} * heads + blockIdx.y) * 128;
  const int i = threadIdx.x;
  const float c = table[blockIdx.x * 128 + i], s = table[blockIdx.x * 128 + 64 + i];
  const float x = __half2float(in[at + i]), y = __half2float(in[at + 64 + i]);
  out[at + i] = __float2half(x * c - y * s);
  out[at + 64 + i] = __float2half(y * c + x * s);
}

__global__ void turn_vector(__half2* out, const __half2* in, const float2* table, int heads) {
  const int head = threadIdx.x / 32, i = threadIdx.x % 32;
  const float2 c = table[blockIdx.x * 64 + i], s = table[blockIdx.x * 64 + 32 + i];
  for (int h = head; h < heads; h += 8) {
    const int64_t at = (int64_t{blockIdx.x} * heads + h) * 64;
    const float2 x = __half22float2(in[at + i]), y = __half22float2(in[at + 32 + i]);
    out[at + i] = __floats2half2_rn(x.x * c.x - y.x * s.x, x.y * c.y - y.y * s.y);
    out[at + 32 + i] = __floats2half2_rn(y.x * c.x + x.x * s.x, y.y * c.y + x.y * s.y);
  }
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

// Gates of a recurrent cell: rows of four times b.
__global__ void cell_scalar(float* out, const float* in, int width, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float* gates = in + int64_t{i / width} * 4 * width + i % width;
  const float c = sigmoid(gates[width]) * gates[0] + sigmoid(gates[0]) * tanhf(gates[2 * width]);
  out[i] = sigmoid(gates[3 * width]) * tanhf(c);
}

__global__ void cell_fours(float4* out, const float4* in, int vectors, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float4* gates = in + int64_t{i / vectors} * 4 * vectors + i % vectors;
  const float4 p = gates[0], q = gates[vectors], r = gates[2 * vectors], o = gates[3 * vectors];
  float4 h;
  const float x[4] = {p.x, p.y, p.z, p.w}, f[4] = {q.x, q.y, q.z, q.w}, g[4] = {r.x, r.y, r.z, r.w}, e[4] = {o.x, o.y, o.z, o.w};
  float y[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) y[k] = sigmoid(e[k]) * tanhf(sigmoid(f[k]) * x[k] + sigmoid(x[k]) * tanhf(g[k]));
  h = make_float4(y[0], y[1], y[2], y[3]);
  out[i] = h;
}

// A step of Adam: weights, gradients and two moments.
__device__ __forceinline__ float step_of(float w, float g, float m, float v) {
  m = 0.9f * m + 0.1f * g, v = 0.999f * v + 0.001f * g * g;
  return w - 0.001f * m / (sqrtf(v) + 1e-8f);
}
__global__ void adam_scalar(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = step_of(in[i], in[n + i], in[2 * n + i], in[3 * n + i]);
}
__global__ void adam_fours(float4* out, const float4* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float4 w = in[i], g = in[n + i], m = in[2 * n + i], v = in[3 * n + i];
  out[i] = make_float4(step_of(w.x, g.x, m.x, v.x), step_of(w.y, g.y, m.y, v.y), step_of(w.z, g.z, m.z, v.z),
                       step_of(w.w, g.w, m.w, v.w));
}
__global__ void adam_loop(float* out, const float* in, int n) {
  for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += gridDim.x * 512)
    out[i] = step_of(in[i], in[n + i], in[2 * n + i], in[3 * n + i]);
}

// Elements stay where a hash of their place says so.
__device__ __forceinline__ unsigned hashed(unsigned x) {
#pragma unroll
  for (int k = 0; k < 6; ++k) x = (x ^ x >> 16) * 0x7feb352du + 0x846ca68bu;
  return x;
}
__global__ void drop_scalar(__half* out, const __half* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = hashed(i) < 0xc0000000u ? __float2half(__half2float(in[i]) * 1.333f) : __half(0.0f);
}
__global__ void drop_eights(uint4* out, const uint4* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  uint4 x = in[i];
  __half2* pairs = reinterpret_cast<__half2*>(&x);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const unsigned word = hashed(4 * i + k);
    const float2 pair = __half22float2(pairs[k]);
    pairs[k] = __floats2half2_rn((word & 0xffff) < 0xc000 ? pair.x * 1.333f : 0, word >> 16 < 0xc000 ? pair.y * 1.333f : 0);
  }
  out[i] = x;
}

// Rows are sent to another place, each by its number.
__global__ void rows_far(__half* out, const __half* in, int rows, int columns) {
  const int to = blockIdx.x * 613 % rows;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[int64_t{to} * columns + i] = in[int64_t{blockIdx.x} * columns + i];
}
__global__ void rows_far_eights(uint4* out, const uint4* in, int rows, int vectors) {
  const int to = blockIdx.x * 613 % rows;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) out[int64_t{to} * vectors + i] = in[int64_t{blockIdx.x} * vectors + i];
}

// Gradients of an embedding: rows are added to one of 512.
__global__ void add_rows(float* out, const float* in, int columns) {
  const unsigned to = hashed(blockIdx.x) % 512;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) atomicAdd(out + int64_t{to} * columns + i, in[int64_t{blockIdx.x} * columns + i]);
}
__global__ void add_sorted_rows(float* out, const float* in, int rows, int columns) {
  const int column = blockIdx.y * 128 + threadIdx.x;
  float sum = 0;
  for (int r = blockIdx.x; r < rows; r += 512) sum += in[int64_t{r} * columns + column];
  out[int64_t{blockIdx.x} * columns + column] = sum;
}

// One query of 64 numbers against b keys, and the mean of b values: a block a head.
__global__ void attend_block(float* out, const float* query, const float* keys, int length) {
  __shared__ float weight[2048], room[33], mine[64];
  const float* k = keys + int64_t{blockIdx.x} * length * 64;
  if (threadIdx.x < 64) mine[threadIdx.x] = query[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = warp; i < length; i += 8) {
    const float dot = warp_total(k[i * 64 + lane] * mine[lane] + k[i * 64 + 32 + lane] * mine[32 + lane]);
    if (lane == 0) weight[i] = __expf(dot * 0.01f);
  }
  __syncthreads();
  float sum = 0;
  for (int i = threadIdx.x; i < length; i += 256) sum += weight[i];
  sum = block_total(sum, room);
  __shared__ float part[4][64];
  float value = 0;
  for (int i = threadIdx.x / 64; i < length; i += 4) value += weight[i] * k[i * 64 + threadIdx.x % 64];
  part[threadIdx.x / 64][threadIdx.x % 64] = value;
  __syncthreads();
  if (threadIdx.x < 64)
    out[blockIdx.x * 64 + threadIdx.x] = (part[0][threadIdx.x] + part[1][threadIdx.x] + part[2][threadIdx.x] + part[3][threadIdx.x]) / sum;
}
__global__ void attend_warp(float* out, const float* query, const float* keys, int heads, int length) {
  const int head = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (head >= heads) return;
  const float2* k = reinterpret_cast<const float2*>(keys + int64_t{head} * length * 64);
  const float2 q = reinterpret_cast<const float2*>(query)[head * 32 + lane];
  float2 value = make_float2(0, 0);
  float sum = 0;
#pragma unroll 4
  for (int i = 0; i < length; ++i) {
    const float2 x = k[i * 32 + lane];
    const float weight = __expf(warp_total(x.x * q.x + x.y * q.y) * 0.01f);
    sum += weight, value.x += weight * x.x, value.y += weight * x.y;
  }
  reinterpret_cast<float2*>(out)[head * 32 + lane] = make_float2(value.x / sum, value.y / sum);
}

// Groups of 16 channels of b numbers each get mean 0.
__global__ void groups_block(float* out, const float* in, int size) {
  __shared__ float room[33];
  const float* mine = in + int64_t{blockIdx.x} * size;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < size; i += 512) sum += mine[i], squares += mine[i] * mine[i];
  sum = block_total(sum, room) / size;
  __syncthreads();
  squares = block_total(squares, room) / size;
  const float scale = rsqrtf(squares - sum * sum + 1e-5f);
  for (int i = threadIdx.x; i < size; i += 512) out[int64_t{blockIdx.x} * size + i] = (mine[i] - sum) * scale;
}
__global__ void groups_block_fours(float4* out, const float4* in, int vectors) {
  __shared__ float room[33];
  const float4* mine = in + int64_t{blockIdx.x} * vectors;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < vectors; i += 256) {
    const float4 x = mine[i];
    sum += x.x + x.y + x.z + x.w, squares += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
  }
  sum = block_total(sum, room) / (4 * vectors);
  __syncthreads();
  squares = block_total(squares, room) / (4 * vectors);
  const float scale = rsqrtf(squares - sum * sum + 1e-5f);
  for (int i = threadIdx.x; i < vectors; i += 256) {
    const float4 x = mine[i];
    out[int64_t{blockIdx.x} * vectors + i] =
        make_float4((x.x - sum) * scale, (x.y - sum) * scale, (x.z - sum) * scale, (x.w - sum) * scale);
  }
}

}  // namespace

#define FLOATS (float*)out, (const float*)in
#define FOURS (float4*)out, (const float4*)in
LAUNCHER(loss_in_two_passes) { LAUNCH(loss_two_passes, a, 256, FLOATS, b); }
LAUNCHER(loss_in_one_pass) { LAUNCH(loss_online, a, 256, (float*)out, (const float4*)in, b / 4); }
LAUNCHER(loss_by_warps) { LAUNCH(loss_warp, cover(a, 4), 128, (float*)out, (const float4*)in, a, b / 4); }
LAUNCHER(top_four_by_thread) { LAUNCH(top_thread, cover(a, 64), 64, (float4*)out, (const float*)in, a, b); }
LAUNCHER(top_four_by_warp) { LAUNCH(top_warp, cover(a, 8), 256, (float4*)out, (const float*)in, a, b); }
LAUNCHER(top_four_in_rounds) { LAUNCH(top_rounds, a, 256, (float4*)out, (const float*)in, b); }
LAUNCHER(widen_int4_singly) {
  LAUNCH(int4_by_number, a * b / 256, 256, (__half*)out, (const uint8_t*)in, (const __half*)in + a * b / 4, a * b);
}
LAUNCHER(widen_int4_by_eights) {
  LAUNCH(int4_by_word, cover(a * b / 8, 256), 256, (uint4*)out, (const unsigned*)in, (const __half*)in + a * b / 4, a * b / 8);
}
LAUNCHER(turn_heads_singly) {
  LAUNCH(turn_scalar, dim3(a, b / 128), 64, (__half*)out, (const __half*)in, (const float*)((const __half*)in + a * b), b / 128);
}
LAUNCHER(turn_heads_by_tokens) {
  LAUNCH(turn_vector, a, 256, (__half2*)out, (const __half2*)in, (const float2*)((const __half*)in + a * b), b / 128);
}
LAUNCHER(cell_by_words) { LAUNCH(cell_scalar, a * b / 256, 256, FLOATS, b, a * b); }
LAUNCHER(cell_by_fours) { LAUNCH(cell_fours, cover(a * b / 4, 256), 256, FOURS, b / 4, a * b / 4); }
LAUNCHER(adam_by_words) { LAUNCH(adam_scalar, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(adam_by_fours) { LAUNCH(adam_fours, cover(a * b / 4, 256), 256, FOURS, a * b / 4); }
LAUNCHER(adam_in_a_loop) { LAUNCH(adam_loop, 264, 512, FLOATS, a * b); }
LAUNCHER(drop_by_halves) { LAUNCH(drop_scalar, a * b / 256, 256, (__half*)out, (const __half*)in, a * b); }
LAUNCHER(drop_by_eights) { LAUNCH(drop_eights, cover(a * b / 8, 256), 256, (uint4*)out, (const uint4*)in, a * b / 8); }
LAUNCHER(permute_rows_by_halves) { LAUNCH(rows_far, a, 256, (__half*)out, (const __half*)in, a, b); }
LAUNCHER(permute_rows_by_eights) { LAUNCH(rows_far_eights, a, 128, (uint4*)out, (const uint4*)in, a, b / 8); }
LAUNCHER(add_rows_with_atomics) { LAUNCH(add_rows, a, 128, FLOATS, b); }
LAUNCHER(add_rows_in_order) { LAUNCH(add_sorted_rows, dim3(512, b / 128), 128, FLOATS, a, b); }
LAUNCHER(attend_by_block) { LAUNCH(attend_block, a, 256, (float*)out, (const float*)in, (const float*)in, b); }
LAUNCHER(attend_by_warp) { LAUNCH(attend_warp, cover(a, 4), 128, (float*)out, (const float*)in, (const float*)in, a, b); }
LAUNCHER(norm_groups_by_words) { LAUNCH(groups_block, a, 512, FLOATS, b); }
LAUNCHER(norm_groups_by_fours) { LAUNCH(groups_block_fours, a, 256, FOURS, b / 4); }
