// From logits to a token, and from a router's logits to experts.
#include "common.cuh"

namespace {

// The eight largest of a row, the largest first, and their softmax. Lower experts win ties.
__device__ __forceinline__ void keep_eight(float* weights, int* ids, float value, int id, float first, float& sum, float* held,
                                           int k) {
  held[k] = __expf(value - first);
  sum += held[k];
  ids[k] = id;
  if (k == 7)
    for (int j = 0; j < 8; ++j) weights[j] = held[j] / sum;
}

__global__ void eight_by_block(float* weights, int* ids, const float* in, int experts) {
  __shared__ float value[128], held[8];
  __shared__ int place[128];
  const int t = threadIdx.x, token = blockIdx.x;
  float mine = t < experts ? in[int64_t{token} * experts + t] : -1.0f;
  float first = 0.0f, sum = 0.0f;
  for (int k = 0; k < 8; ++k) {
    value[t] = mine;
    place[t] = t;
    __syncthreads();
    for (int half = 64; half; half /= 2) {
      if (t < half && (value[t + half] > value[t] || (value[t + half] == value[t] && place[t + half] < place[t])))
        value[t] = value[t + half], place[t] = place[t + half];
      __syncthreads();
    }
    if (k == 0) first = value[0];
    if (t == 0) keep_eight(weights + token * 8, ids + token * 8, value[0], place[0], first, sum, held, k);
    if (t == place[0]) mine = -1.0f;
    __syncthreads();
  }
}

// A thread for a token, which inserts into a sorted list in registers.
__global__ void eight_by_thread(float* weights, int* ids, const float4* in, int tokens, int vectors) {
  const int token = blockIdx.x * 128 + threadIdx.x;
  if (token >= tokens) return;
  const float4* row = in + int64_t{token} * vectors;
  float value[8];
  int place[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) value[k] = -1.0f, place[k] = 0;
  for (int i = 0; i < vectors; ++i) {
    const float4 v = row[i];
    const float of[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (of[j] <= value[7]) continue;
      value[7] = of[j], place[7] = 4 * i + j;
#pragma unroll
      for (int k = 7; k > 0; --k)
        if (value[k] > value[k - 1]) {
          const float x = value[k];
          const int p = place[k];
          value[k] = value[k - 1], place[k] = place[k - 1], value[k - 1] = x, place[k - 1] = p;
        }
    }
  }
  float sum = 0.0f, e[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += e[k] = __expf(value[k] - value[0]);
#pragma unroll
  for (int k = 0; k < 8; ++k) weights[token * 8 + k] = e[k] / sum, ids[token * 8 + k] = place[k];
}

// A warp for a token, four numbers a lane, eight rounds of shuffles.
__global__ void eight_by_warp(float* weights, int* ids, const float* in, int tokens) {
  const int token = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (token >= tokens) return;
  float mine[4], kept = 0.0f, first = 0.0f;
  int chosen = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) mine[j] = in[int64_t{token} * 128 + j * 32 + lane];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    float best = mine[0];
    int place = lane;
#pragma unroll
    for (int j = 1; j < 4; ++j)
      if (mine[j] > best) best = mine[j], place = j * 32 + lane;
#pragma unroll
    for (int step = 16; step; step /= 2) {
      const float other = __shfl_xor_sync(ALL, best, step);
      const int there = __shfl_xor_sync(ALL, place, step);
      if (other > best || (other == best && there < place)) best = other, place = there;
    }
    if (k == 0) first = best;
    if (lane == k) kept = __expf(best - first), chosen = place;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (place == j * 32 + lane) mine[j] = -1.0f;
  }
  const float sum = lanes_sum(kept);
  if (lane < 8) weights[token * 8 + lane] = kept / sum, ids[token * 8 + lane] = chosen;
}

// The same with the reduction of whole numbers, as whose bits positive floats are ordered.
__global__ void eight_by_bits(float* weights, int* ids, const uint4* in, int tokens) {
  const int token = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (token >= tokens) return;
  const uint4 v = in[token * 32 + lane];
  unsigned mine[4] = {v.x + 1, v.y + 1, v.z + 1, v.w + 1};
  float kept = 0.0f, first = 0.0f;
  int chosen = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const unsigned best = __reduce_max_sync(ALL, max(max(mine[0], mine[1]), max(mine[2], mine[3])));
    int j = 4;
    if (mine[3] == best) j = 3;
    if (mine[2] == best) j = 2;
    if (mine[1] == best) j = 1;
    if (mine[0] == best) j = 0;
    const int place = __reduce_min_sync(ALL, j < 4 ? lane * 4 + j : 1000);
    const float value = __uint_as_float(best - 1);
    if (k == 0) first = value;
    if (lane == k) kept = __expf(value - first), chosen = place;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (place == lane * 4 + i) mine[i] = 0;
  }
  const float sum = lanes_sum(kept);
  if (lane < 8) weights[token * 8 + lane] = kept / sum, ids[token * 8 + lane] = chosen;
}

// The first token at which the sum of weights passes a drawn share of the whole.
__global__ void draw_steps(int* out, const float* draws, const float* in, int columns) {
  __shared__ float room[256];
  __shared__ int found;
  const int t = threadIdx.x;
  const float* row = in + int64_t{blockIdx.x} * columns;
  float sum = 0.0f;
  for (int i = t; i < columns; i += 256) sum += row[i];
  room[t] = sum;
  if (t == 0) found = columns;
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (t < half) room[t] += room[t + half];
    __syncthreads();
  }
  const float aim = draws[blockIdx.x] * 0.5f * room[0];
  float before = 0.0f;
  for (int base = 0; base < columns; base += 256) {
    __syncthreads();
    room[t] = row[base + t];
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
      const float add = t >= step ? room[t - step] : 0.0f;
      __syncthreads();
      room[t] += add;
      __syncthreads();
    }
    if (before + room[t] > aim) atomicMin(&found, base + t);
    before += room[255];
    __syncthreads();
    if (found < columns) break;
  }
  if (t == 0) out[blockIdx.x] = min(found, columns - 1);
}

__device__ __forceinline__ float lanes_scan(float x) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float y = __shfl_up_sync(ALL, x, step);
    if (lane >= step) x += y;
  }
  return x;
}

// Each thread owns a run of the row; the owner of the place walks it.
__global__ void draw_runs(int* out, const float* draws, const float* in, int columns) {
  __shared__ float room[8];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, run = columns / 256;
  const float* mine = in + int64_t{blockIdx.x} * columns + t * run;
  float sum = 0.0f;
  for (int i = 0; i < run; ++i) sum += mine[i];
  float upto = lanes_scan(sum);
  if (lane == 31) room[warp] = upto;
  __syncthreads();
  float total = 0.0f, before = 0.0f;
  for (int w = 0; w < 8; ++w) {
    if (w == warp) before = total;
    total += room[w];
  }
  const float aim = draws[blockIdx.x] * 0.5f * total;
  upto += before;
  float at = upto - sum;
  if (!(aim < upto && aim >= at) && !(t == 255 && aim >= upto)) return;
  int i = 0;
  for (; i < run - 1; ++i) {
    at += mine[i];
    if (at > aim) break;
  }
  out[blockIdx.x] = t * run + i;
}

// Sums of tiles first, then one tile is looked into.
__global__ void __launch_bounds__(512) draw_tiles(int* out, const float* draws, const float4* in, int vectors) {
  __shared__ float of_warp[32][16], tile_sum[32], room[16];
  __shared__ int found;
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, tiles = vectors / 512;
  const float4* row = in + int64_t{blockIdx.x} * vectors;
  if (t == 0) found = 2047;
#pragma unroll 4
  for (int tile = 0; tile < tiles; ++tile) {
    const float4 v = row[tile * 512 + t];
    const float sum = lanes_sum(v.x + v.y + (v.z + v.w));
    if (lane == 0) of_warp[tile][warp] = sum;
  }
  __syncthreads();
  if (t < tiles) {
    float sum = 0.0f;
    for (int w = 0; w < 16; ++w) sum += of_warp[t][w];
    tile_sum[t] = sum;
  }
  __syncthreads();
  float total = 0.0f;
  for (int tile = 0; tile < tiles; ++tile) total += tile_sum[tile];
  const float aim = draws[blockIdx.x] * 0.5f * total;
  float before = 0.0f;
  int tile = 0;
  for (; tile < tiles - 1 && before + tile_sum[tile] <= aim; ++tile) before += tile_sum[tile];
  const float4 v = row[tile * 512 + t];
  const float sum = v.x + v.y + (v.z + v.w), upto = lanes_scan(sum);
  if (lane == 31) room[warp] = upto;
  __syncthreads();
  for (int w = 0; w < warp; ++w) before += room[w];
  before += upto - sum;
  const float of[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    before += of[j];
    if (before > aim) {
      atomicMin(&found, 4 * t + j);
      break;
    }
  }
  __syncthreads();
  if (t == 0) out[blockIdx.x] = tile * 2048 + found;
}

// Logits of tokens that a grammar forbids become -60000.
__global__ void allow_one(__half* out, const unsigned* mask, const __half* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = mask[i / 32] >> i % 32 & 1 ? in[i] : __float2half(-60000.0f);
}

__device__ __forceinline__ Pack allow(const Pack& x, unsigned bits) {
  const __half never = __float2half(-60000.0f);
  Pack y;
#pragma unroll
  for (int j = 0; j < 4; ++j)
    y.h[j] = __halves2half2(bits >> 2 * j & 1 ? __low2half(x.h[j]) : never, bits >> (2 * j + 1) & 1 ? __high2half(x.h[j]) : never);
  return y;
}

__global__ void allow_eights(Pack* out, const uint8_t* mask, const Pack* in, int packs) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < packs) out[i] = allow(in[i], mask[i]);
}

__global__ void allow_words(Pack* out, const unsigned* mask, const Pack* in, int words) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= words) return;
  const unsigned bits = mask[i];
#pragma unroll
  for (int j = 0; j < 4; ++j) out[4 * i + j] = allow(in[4 * i + j], bits >> 8 * j);
}

// The 64th largest of a row of positive numbers: bit by bit, with the whole row counted for each.
constexpr int KTH = 64;

__global__ void kth_bits(unsigned* out, const unsigned* in, int columns) {
  const unsigned* row = in + int64_t{blockIdx.x} * columns;
  __shared__ int counts[8];
  unsigned found = 0;
  for (int bit = 30; bit >= 0; --bit) {
    const unsigned tried = found | 1u << bit;
    int count = 0;
    for (int i = threadIdx.x; i < columns; i += 256) count += row[i] >= tried;
    count = __reduce_add_sync(ALL, count);
    if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = count;
    __syncthreads();
    int all = 0;
    for (int w = 0; w < 8; ++w) all += counts[w];
    if (all >= KTH) found = tried;
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = found;
}

// Eight bits at a time, by a histogram of what is still in question.
__global__ void kth_digits(unsigned* out, const unsigned* in, int columns) {
  __shared__ int bins[256];
  __shared__ unsigned found;
  __shared__ int left;
  const unsigned* row = in + int64_t{blockIdx.x} * columns;
  const int t = threadIdx.x;
  if (t == 0) found = 0, left = KTH;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bins[t] = 0;
    __syncthreads();
    const unsigned known = found, mask = shift == 24 ? 0 : ALL << (shift + 8);
    for (int i = t; i < columns; i += 256) {
      const unsigned x = row[i];
      if ((x & mask) == known) atomicAdd(bins + (x >> shift & 255), 1);
    }
    __syncthreads();
    if (t == 0) {
      int digit = 255, more = left;
      while (bins[digit] < more) more -= bins[digit--];
      found |= digit << shift, left = more;
    }
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = found;
}

// The row is held in registers, and bins are summed by a warp.
__global__ void __launch_bounds__(512) kth_held(unsigned* out, const uint4* in) {
  __shared__ int bins[256];
  __shared__ unsigned found;
  __shared__ int left;
  const int t = threadIdx.x;
  uint4 v[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) v[j] = in[int64_t{blockIdx.x} * 2048 + j * 512 + t];
  if (t == 0) found = 0, left = KTH;
  for (int shift = 24; shift >= 0; shift -= 8) {
    if (t < 256) bins[t] = 0;
    __syncthreads();
    const unsigned known = found, mask = shift == 24 ? 0 : ALL << (shift + 8);
    const int more = left;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned of[4] = {v[j].x, v[j].y, v[j].z, v[j].w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if ((of[i] & mask) == known) atomicAdd(bins + (of[i] >> shift & 255), 1);
    }
    __syncthreads();
    if (t < 32) {
      int mine = 0;  // of eight bins; lane 0 has the highest ones
      for (int j = 0; j < 8; ++j) mine += bins[255 - t * 8 - j];
      int upto = mine;
      for (int step = 1; step < 32; step *= 2) {
        const int y = __shfl_up_sync(ALL, upto, step);
        if (t >= step) upto += y;
      }
      if (upto >= more && upto - mine < more) {
        int rest = more - (upto - mine), digit = 255 - t * 8;
        while (bins[digit] < rest) rest -= bins[digit--];
        found = known | digit << shift, left = rest;
      }
    }
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = found;
}

// Repetition, frequency and presence penalties and the temperature, a row's own.
__device__ __forceinline__ float penalised(float x, int count, float4 p) {
  const float repeated = x > 0.0f ? x / (1.0f + p.x) : x * (1.0f + p.x);
  return ((count > 0 ? repeated - p.z : x) - p.y * count) / (0.5f + p.w);
}

__global__ void penalties_one(float* out, const int* counts, const float4* parameters, const float* in, int columns) {
  const int column = blockIdx.x * 256 + threadIdx.x;
  const int64_t at = int64_t{blockIdx.y} * columns + column;
  if (column < columns) out[at] = penalised(in[at], counts[at], parameters[blockIdx.y]);
}

__device__ __forceinline__ float4 penalised_four(float4 x, int4 count, float4 p) {
  return make_float4(penalised(x.x, count.x, p), penalised(x.y, count.y, p), penalised(x.z, count.z, p),
                     penalised(x.w, count.w, p));
}

__global__ void penalties_four(float4* out, const int4* counts, const float4* parameters, const float4* in, int vectors) {
  const int column = blockIdx.x * 128 + threadIdx.x;
  const int64_t at = int64_t{blockIdx.y} * vectors + column;
  if (column < vectors) out[at] = penalised_four(in[at], counts[at], parameters[blockIdx.y]);
}

// What nobody reads again does not stay in the caches; most tokens were never seen, and need no division by a penalty.
__global__ void penalties_streamed(float4* out, const int4* counts, const float4* parameters, const float4* in, int vectors,
                                   int each) {
  const float4 p = parameters[blockIdx.y];
  const float colder = 1.0f / (0.5f + p.w);
  const int from = blockIdx.x * each, to = min(from + each, vectors);
  const int64_t row = int64_t{blockIdx.y} * vectors;
#pragma unroll 2
  for (int i = from + threadIdx.x; i < to; i += 256) {
    const int4 count = __ldcs(counts + row + i);
    const float4 x = __ldcs(in + row + i);
    const bool seen = count.x | count.y | count.z | count.w;
    const float4 free = make_float4(x.x * colder, x.y * colder, x.z * colder, x.w * colder);
    __stcs(out + row + i, seen ? penalised_four(x, count, p) : free);
  }
}

}  // namespace

LAUNCHER(eight_experts_block) {
  eight_by_block<<<a, 128, 0, stream>>>((float*)out, (int*)out + 8 * a, (const float*)in, b);
  return cudaGetLastError();
}
LAUNCHER(eight_experts_thread) {
  eight_by_thread<<<ceil_div(a, 128), 128, 0, stream>>>((float*)out, (int*)out + 8 * a, (const float4*)in, a, b / 4);
  return cudaGetLastError();
}
LAUNCHER(eight_experts_warp) {
  eight_by_warp<<<ceil_div(a, 4), 128, 0, stream>>>((float*)out, (int*)out + 8 * a, (const float*)in, a);
  return cudaGetLastError();
}
LAUNCHER(eight_experts_bits) {
  eight_by_bits<<<ceil_div(a, 8), 256, 0, stream>>>((float*)out, (int*)out + 8 * a, (const uint4*)in, a);
  return cudaGetLastError();
}
LAUNCHER(drawn_token_steps) {
  draw_steps<<<a, 256, 0, stream>>>((int*)out, (const float*)in, (const float*)in + a, b);
  return cudaGetLastError();
}
LAUNCHER(drawn_token_runs) {
  draw_runs<<<a, 256, 0, stream>>>((int*)out, (const float*)in, (const float*)in + a, b);
  return cudaGetLastError();
}
LAUNCHER(drawn_token_tiles) {
  draw_tiles<<<a, 512, 0, stream>>>((int*)out, (const float*)in, (const float4*)((const float*)in + a), b / 4);
  return cudaGetLastError();
}
LAUNCHER(grammar_mask_each) {
  allow_one<<<ceil_div(a * b, 8), 256, 0, stream>>>((__half*)out, (const unsigned*)in,
                                                   (const __half*)((const unsigned*)in + a * b), 32 * a * b);
  return cudaGetLastError();
}
LAUNCHER(grammar_mask_eights) {
  allow_eights<<<ceil_div(a * b, 64), 256, 0, stream>>>((Pack*)out, (const uint8_t*)in,
                                                       (const Pack*)((const unsigned*)in + a * b), 4 * a * b);
  return cudaGetLastError();
}
LAUNCHER(grammar_mask_words) {
  allow_words<<<ceil_div(a * b, 128), 128, 0, stream>>>((Pack*)out, (const unsigned*)in,
                                                       (const Pack*)((const unsigned*)in + a * b), a * b);
  return cudaGetLastError();
}
LAUNCHER(kth_largest_bits) {
  kth_bits<<<a, 256, 0, stream>>>((unsigned*)out, (const unsigned*)in, b);
  return cudaGetLastError();
}
LAUNCHER(kth_largest_digits) {
  kth_digits<<<a, 256, 0, stream>>>((unsigned*)out, (const unsigned*)in, b);
  return cudaGetLastError();
}
LAUNCHER(kth_largest_held) {
  kth_held<<<a, 512, 0, stream>>>((unsigned*)out, (const uint4*)in);
  return cudaGetLastError();
}
LAUNCHER(penalties_each) {
  const float* parameters = (const float*)in + a * b;
  penalties_one<<<dim3(ceil_div(b, 256), a), 256, 0, stream>>>((float*)out, (const int*)in, (const float4*)parameters,
                                                               parameters + 4 * a, b);
  return cudaGetLastError();
}
LAUNCHER(penalties_fours) {
  const float* parameters = (const float*)in + a * b;
  penalties_four<<<dim3(ceil_div(b, 512), a), 128, 0, stream>>>((float4*)out, (const int4*)in, (const float4*)parameters,
                                                                (const float4*)(parameters + 4 * a), b / 4);
  return cudaGetLastError();
}
LAUNCHER(penalties_runs) {
  const float* parameters = (const float*)in + a * b;
  penalties_streamed<<<dim3(ceil_div(b, 8192), a), 256, 0, stream>>>((float4*)out, (const int4*)in, (const float4*)parameters,
                                                                     (const float4*)(parameters + 4 * a), b / 4, 2048);
  return cudaGetLastError();
}
