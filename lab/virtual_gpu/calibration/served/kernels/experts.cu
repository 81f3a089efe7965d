// Tokens in the order of their experts, and sums of rows that ids choose.
#include "common.cuh"

namespace {

constexpr int EXPERTS = 64;

// Where each token goes when they are sorted by expert, order kept, and where each expert starts. A block for an
// expert, which looks at all tokens twice.
__global__ void __launch_bounds__(256) slots_of_expert(int* slots, int* starts, const int* ids, int n) {
  __shared__ int room[8];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, expert = blockIdx.x;
  int fewer = 0;
  for (int i = t; i < n; i += 256) fewer += ids[i] < expert;
  fewer = __reduce_add_sync(ALL, fewer);
  if (lane == 0) room[warp] = fewer;
  __syncthreads();
  int next = 0;
  for (int w = 0; w < 8; ++w) next += room[w];
  if (t == 0) starts[expert] = next;
  if (t == 0 && expert == 0) starts[EXPERTS] = n;
  for (int base = 0; base < n; base += 256) {
    const bool mine = base + t < n && ids[base + t] == expert;
    const unsigned ballot = __ballot_sync(ALL, mine);
    __syncthreads();
    if (lane == 0) room[warp] = __popc(ballot);
    __syncthreads();
    int before = next;
    for (int w = 0; w < 8; ++w) {
      if (w < warp) before += room[w];
      next += room[w];
    }
    if (mine) slots[base + t] = before + __popc(ballot & ((1u << lane) - 1));
  }
}

// One block for everything: a count, then tiles of 1024 in turn, each ranked by warps that match ids.
__global__ void __launch_bounds__(1024) slots_one_block(int* slots, int* starts, const int* ids, int n) {
  __shared__ int next[EXPERTS], of_warp[32][EXPERTS];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  if (t < EXPERTS) next[t] = 0;
  __syncthreads();
  for (int i = t; i < n; i += 1024) atomicAdd(next + ids[i], 1);
  __syncthreads();
  if (t == 0) {
    int sum = 0;
    for (int e = 0; e < EXPERTS; ++e) {
      const int count = next[e];
      starts[e] = next[e] = sum;
      sum += count;
    }
    starts[EXPERTS] = sum;
  }
  __syncthreads();
  for (int base = 0; base < n; base += 1024) {
    of_warp[warp][lane] = 0, of_warp[warp][lane + 32] = 0;
    __syncwarp();
    const int id = ids[base + t];
    const unsigned same = __match_any_sync(ALL, id);
    const int rank = __popc(same & ((1u << lane) - 1));
    if (rank == 0) of_warp[warp][id] = __popc(same);
    __syncthreads();
    if (t < EXPERTS) {
      int sum = next[t];
      for (int w = 0; w < 32; ++w) {
        const int count = of_warp[w][t];
        of_warp[w][t] = sum;
        sum += count;
      }
      next[t] = sum;
    }
    __syncthreads();
    slots[base + t] = of_warp[warp][id] + rank;
    __syncthreads();
  }
}

// Three launches: counts of tiles of 1024, their sums, and ranks.
__global__ void __launch_bounds__(256) tile_counts(int* counts, const int4* ids, int tiles) {
  __shared__ int mine[EXPERTS];
  const int t = threadIdx.x;
  if (t < EXPERTS) mine[t] = 0;
  __syncthreads();
  const int4 v = ids[blockIdx.x * 256 + t];
  atomicAdd(mine + v.x, 1), atomicAdd(mine + v.y, 1), atomicAdd(mine + v.z, 1), atomicAdd(mine + v.w, 1);
  __syncthreads();
  if (t < EXPERTS) counts[t * tiles + blockIdx.x] = mine[t];
}

__global__ void __launch_bounds__(1024) sum_counts(int* counts, int* starts, int tiles) {
  __shared__ int room[32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, n = EXPERTS * tiles;
  int carry = 0;
  for (int base = 0; base < n; base += 1024) {
    const int i = base + t, mine = i < n ? counts[i] : 0;
    int upto = mine;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int y = __shfl_up_sync(ALL, upto, step);
      if (lane >= step) upto += y;
    }
    if (lane == 31) room[warp] = upto;
    __syncthreads();
    if (warp == 0) {
      int sums = room[lane];
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const int y = __shfl_up_sync(ALL, sums, step);
        if (lane >= step) sums += y;
      }
      room[lane] = sums;
    }
    __syncthreads();
    const int before = carry + upto - mine + (warp ? room[warp - 1] : 0);
    if (i < n) {
      counts[i] = before;
      if (i % tiles == 0) starts[i / tiles] = before;
    }
    carry += room[31];
    __syncthreads();
  }
  if (t == 0) starts[EXPERTS] = carry;
}

__global__ void __launch_bounds__(256) rank_tiles(int* slots, const int* before, const int* ids, int tiles) {
  __shared__ int next[8][EXPERTS];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, first = blockIdx.x * 1024 + warp * 128 + lane;
  next[warp][lane] = 0, next[warp][lane + 32] = 0;
  __syncwarp();
  int id[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    id[j] = ids[first + 32 * j];
    atomicAdd(&next[warp][id[j]], 1);
  }
  __syncthreads();
  if (t < EXPERTS) {
    int sum = before[t * tiles + blockIdx.x];
#pragma unroll
    for (int w = 0; w < 8; ++w) {
      const int count = next[w][t];
      next[w][t] = sum;
      sum += count;
    }
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const unsigned same = __match_any_sync(ALL, id[j]);
    const int rank = __popc(same & ((1u << lane) - 1)), start = next[warp][id[j]];
    slots[first + 32 * j] = start + rank;
    __syncwarp();
    if (rank == 0) next[warp][id[j]] = start + __popc(same);
    __syncwarp();
  }
}

// A token's eight rows, weighed and added, wherever they are.
__global__ void weighed_one(__half* out, const int* ids, const float* weights, const __half* rows, int columns) {
  const int token = blockIdx.x;
  for (int i = threadIdx.x; i < columns; i += 256) {
    float sum = 0.0f;
    for (int k = 0; k < 8; ++k)
      sum += weights[token * 8 + k] * __half2float(rows[int64_t{ids[token * 8 + k]} * columns + i]);
    out[int64_t{token} * columns + i] = __float2half(sum);
  }
}

__global__ void weighed_pairs(__half2* out, const int* ids, const float* weights, const __half2* rows, int pairs) {
  __shared__ const __half2* row[8];
  __shared__ float weight[8];
  const int token = blockIdx.x, t = threadIdx.x;
  if (t < 8) row[t] = rows + int64_t{ids[token * 8 + t]} * pairs, weight[t] = weights[token * 8 + t];
  __syncthreads();
  for (int i = t; i < pairs; i += 256) {
    float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 4
    for (int k = 0; k < 8; ++k) {
      const float2 x = __half22float2(row[k][i]);
      sum.x += weight[k] * x.x, sum.y += weight[k] * x.y;
    }
    out[int64_t{token} * pairs + i] = __floats2half2_rn(sum.x, sum.y);
  }
}

// Eight numbers a thread, all rows on the way at once.
__global__ void __launch_bounds__(128) weighed_eights(Pack* out, const int4* ids, const float4* weights, const Pack* rows,
                                                      int packs) {
  const int token = blockIdx.y, i = blockIdx.x * 128 + threadIdx.x;
  if (i >= packs) return;
  const int4 p = ids[token * 2], q = ids[token * 2 + 1];
  const float4 u = weights[token * 2], v = weights[token * 2 + 1];
  const int id[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
  const float weight[8] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
  Pack x[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) x[k] = rows[int64_t{id[k]} * packs + i];
  float2 sum[4] = {};
#pragma unroll
  for (int k = 0; k < 8; ++k)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 y = __half22float2(x[k].h[j]);
      sum[j].x += weight[k] * y.x, sum[j].y += weight[k] * y.y;
    }
  Pack y;
#pragma unroll
  for (int j = 0; j < 4; ++j) y.h[j] = __floats2half2_rn(sum[j].x, sum[j].y);
  out[int64_t{token} * packs + i] = y;
}

// Means of 16 rows of 64 numbers.
constexpr int BAG = 16;

__global__ void bag_one(float* out, const int* ids, const float* table, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int bag = i / 64, d = i % 64;
  float sum = 0.0f;
  for (int k = 0; k < BAG; ++k) sum += table[int64_t{ids[bag * BAG + k]} * 64 + d];
  out[i] = sum / BAG;
}

__global__ void bag_warp(float2* out, const int* ids, const float2* table, int bags) {
  const int bag = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (bag >= bags) return;
  const int mine = ids[bag * BAG + lane % BAG];
  float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll 4
  for (int k = 0; k < BAG; ++k) {
    const float2 x = table[int64_t{__shfl_sync(ALL, mine, k)} * 32 + lane];
    sum.x += x.x, sum.y += x.y;
  }
  out[int64_t{bag} * 32 + lane] = make_float2(sum.x / BAG, sum.y / BAG);
}

// Each half of a warp adds every other row.
__global__ void bag_halves(float4* out, const int* ids, const float4* table, int bags) {
  const int bag = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32, half = lane / 16, d = lane % 16;
  if (bag >= bags) return;
  const int mine = ids[bag * BAG + d];
  float4 x[BAG / 2];
#pragma unroll
  for (int k = 0; k < BAG / 2; ++k) x[k] = table[int64_t{__shfl_sync(ALL, mine, 2 * k + half)} * 16 + d];
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int k = 0; k < BAG / 2; ++k) sum.x += x[k].x, sum.y += x[k].y, sum.z += x[k].z, sum.w += x[k].w;
  sum.x += __shfl_xor_sync(ALL, sum.x, 16), sum.y += __shfl_xor_sync(ALL, sum.y, 16);
  sum.z += __shfl_xor_sync(ALL, sum.z, 16), sum.w += __shfl_xor_sync(ALL, sum.w, 16);
  if (half == 0) out[int64_t{bag} * 16 + d] = make_float4(sum.x / BAG, sum.y / BAG, sum.z / BAG, sum.w / BAG);
}

}  // namespace

LAUNCHER(expert_slots_each) {
  slots_of_expert<<<EXPERTS, 256, 0, stream>>>((int*)out, (int*)out + a * b, (const int*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(expert_slots_one_block) {
  slots_one_block<<<1, 1024, 0, stream>>>((int*)out, (int*)out + a * b, (const int*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(expert_slots_three) {
  int *starts = (int*)out + a * b, *counts = starts + 68;
  const int tiles = a * b / 1024;
  tile_counts<<<tiles, 256, 0, stream>>>(counts, (const int4*)in, tiles);
  sum_counts<<<1, 1024, 0, stream>>>(counts, starts, tiles);
  rank_tiles<<<tiles, 256, 0, stream>>>((int*)out, counts, (const int*)in, tiles);
  return cudaGetLastError();
}
LAUNCHER(expert_sum_each) {
  const float* weights = (const float*)in + 8 * a;
  weighed_one<<<a, 256, 0, stream>>>((__half*)out, (const int*)in, weights, (const __half*)(weights + 8 * a), b);
  return cudaGetLastError();
}
LAUNCHER(expert_sum_pairs) {
  const float* weights = (const float*)in + 8 * a;
  weighed_pairs<<<a, 256, 0, stream>>>((__half2*)out, (const int*)in, weights, (const __half2*)(weights + 8 * a), b / 2);
  return cudaGetLastError();
}
LAUNCHER(expert_sum_eights) {
  const float* weights = (const float*)in + 8 * a;
  weighed_eights<<<dim3(ceil_div(b, 1024), a), 128, 0, stream>>>((Pack*)out, (const int4*)in, (const float4*)weights,
                                                                 (const Pack*)(weights + 8 * a), b / 8);
  return cudaGetLastError();
}
LAUNCHER(bag_means_each) {
  bag_one<<<ceil_div(a, 4), 256, 0, stream>>>((float*)out, (const int*)in, (const float*)in + BAG * a, a * 64);
  return cudaGetLastError();
}
LAUNCHER(bag_means_warp) {
  bag_warp<<<ceil_div(a, 8), 256, 0, stream>>>((float2*)out, (const int*)in, (const float2*)((const float*)in + BAG * a), a);
  return cudaGetLastError();
}
LAUNCHER(bag_means_halves) {
  bag_halves<<<ceil_div(a, 4), 128, 0, stream>>>((float4*)out, (const int*)in, (const float4*)((const float*)in + BAG * a), a);
  return cudaGetLastError();
}
