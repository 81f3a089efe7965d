// Histograms and prefix sums: bytes, tokens by expert, offsets of rows of counts, one long prefix sum.
#include <cmath>

#include "common.cuh"

namespace {

// ---- how often each byte occurs: uint8 [n] to uint32 [256], n = a b ----

__global__ void bytes_global(unsigned* counts, const uint8_t* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) atomicAdd(counts + in[i], 1u);
}

// A copy in each block's shared memory, four bytes a load.
__global__ void bytes_block(unsigned* counts, const unsigned* in, int words) {
  __shared__ unsigned mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < words; i += gridDim.x * 256) {
    const unsigned w = in[i];
    atomicAdd(mine + (w & 255), 1u);
    atomicAdd(mine + (w >> 8 & 255), 1u);
    atomicAdd(mine + (w >> 16 & 255), 1u);
    atomicAdd(mine + (w >> 24), 1u);
  }
  __syncthreads();
  if (mine[threadIdx.x]) atomicAdd(counts + threadIdx.x, mine[threadIdx.x]);
}

// A copy for each of eight warps, sixteen bytes a load.
__global__ void bytes_warps(unsigned* counts, const uint4* in, int vectors) {
  __shared__ unsigned copies[8][256];
  for (int i = threadIdx.x; i < 8 * 256; i += 256) copies[i / 256][i % 256] = 0;
  __syncthreads();
  unsigned* mine = copies[threadIdx.x / 32];
  for (int i = blockIdx.x * 256 + threadIdx.x; i < vectors; i += gridDim.x * 256) {
    const uint4 v = in[i];
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k)
#pragma unroll
      for (int shift = 0; shift < 32; shift += 8) atomicAdd(mine + (words[k] >> shift & 255), 1u);
  }
  __syncthreads();
  unsigned sum = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) sum += copies[w][threadIdx.x];
  if (sum) atomicAdd(counts + threadIdx.x, sum);
}

// ---- top-1 routing: fp32 [a tokens, b experts] to the expert of each token, int32 [a], and tokens by expert, uint32 [b] ----

__global__ void route_thread(int* chosen, unsigned* counts, const float4* in, int tokens, int vectors) {
  const int token = blockIdx.x * 128 + threadIdx.x;
  if (token >= tokens) return;
  const float4* row = in + int64_t{token} * vectors;
  float best = -INFINITY;
  int expert = 0;
  for (int i = 0; i < vectors; ++i) {
    const float4 x = row[i];
    if (x.x > best) best = x.x, expert = 4 * i;
    if (x.y > best) best = x.y, expert = 4 * i + 1;
    if (x.z > best) best = x.z, expert = 4 * i + 2;
    if (x.w > best) best = x.w, expert = 4 * i + 3;
  }
  chosen[token] = expert;
  atomicAdd(counts + expert, 1u);
}

__device__ __forceinline__ int expert_of(const float* row, int experts, int lane) {
  float best = -INFINITY;
  int expert = 0;
  for (int i = lane; i < experts; i += 32)
    if (row[i] > best) best = row[i], expert = i;
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) {
    const float other = __shfl_xor_sync(FULL, best, mask);
    const int at = __shfl_xor_sync(FULL, expert, mask);
    if (other > best || (other == best && at < expert)) best = other, expert = at;
  }
  return expert;
}

__global__ void route_warp(int* chosen, unsigned* counts, const float* in, int tokens, int experts) {
  const int token = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (token >= tokens) return;
  const int expert = expert_of(in + int64_t{token} * experts, experts, lane);
  if (lane == 0) {
    chosen[token] = expert;
    atomicAdd(counts + expert, 1u);
  }
}

// Each warp takes eight tokens; a block counts in shared memory and adds once an expert.
__global__ void route_block(int* chosen, unsigned* counts, const float* in, int tokens, int experts) {
  __shared__ unsigned mine[128];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x < experts) mine[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 2
  for (int k = 0; k < 8; ++k) {
    const int token = blockIdx.x * 64 + k * 8 + warp;
    if (token >= tokens) break;
    const int expert = expert_of(in + int64_t{token} * experts, experts, lane);
    if (lane == 0) {
      chosen[token] = expert;
      atomicAdd(mine + expert, 1u);
    }
  }
  __syncthreads();
  if (threadIdx.x < experts && mine[threadIdx.x]) atomicAdd(counts + threadIdx.x, mine[threadIdx.x]);
}

// ---- where each count's run begins: uint32 [a, b] to exclusive prefix sums of each row ----

__global__ void offsets_double(unsigned* out, const unsigned* in, int columns) {
  __shared__ unsigned room[2][1024];
  const int t = threadIdx.x;
  const int64_t row = int64_t{blockIdx.x} * columns;
  unsigned carry = 0;
  for (int base = 0; base < columns; base += 1024) {
    const unsigned x = in[row + base + t];
    int now = 0;
    room[0][t] = x;
    __syncthreads();
    for (int reach = 1; reach < 1024; reach <<= 1) {
      room[now ^ 1][t] = room[now][t] + (t >= reach ? room[now][t - reach] : 0);
      now ^= 1;
      __syncthreads();
    }
    out[row + base + t] = carry + room[now][t] - x;
    carry += room[now][1023];
    __syncthreads();
  }
}

__device__ __forceinline__ unsigned scan_lanes(unsigned x) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int reach = 1; reach < 32; reach <<= 1) {
    const unsigned below = __shfl_up_sync(FULL, x, reach);
    if (lane >= reach) x += below;
  }
  return x;
}

// Inclusive, over 256 threads; `total` is the sum of all. Room for eight numbers, free again after.
__device__ __forceinline__ unsigned scan_block(unsigned x, unsigned* room, unsigned& total) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  x = scan_lanes(x);
  if (lane == 31) room[warp] = x;
  __syncthreads();
  const unsigned sums = scan_lanes(lane < 8 ? room[lane] : 0);
  total = __shfl_sync(FULL, sums, 7);
  const unsigned before = __shfl_sync(FULL, sums, (warp + 31) % 32);
  __syncthreads();
  return x + (warp ? before : 0);
}

__global__ void __launch_bounds__(256) offsets_shuffle(unsigned* out, const unsigned* in, int columns) {
  __shared__ unsigned room[8];
  const int64_t row = int64_t{blockIdx.x} * columns;
  unsigned carry = 0, total;
  for (int i = threadIdx.x; i < columns; i += 256) {
    const unsigned x = in[row + i];
    out[row + i] = carry + scan_block(x, room, total) - x;
    carry += total;
  }
}

__device__ __forceinline__ uint4 scan_four(uint4 v, unsigned before) {
  const unsigned x = before + v.x, y = x + v.y, z = y + v.z;
  return make_uint4(x, y, z, z + v.w);
}

__global__ void __launch_bounds__(256) offsets_quads(uint4* out, const uint4* in, int vectors) {
  __shared__ unsigned room[8];
  const int64_t row = int64_t{blockIdx.x} * vectors;
  unsigned carry = 0, total;
  for (int i = threadIdx.x; i < vectors; i += 256) {
    const uint4 v = in[row + i];
    const unsigned sum = v.x + v.y + v.z + v.w, before = carry + scan_block(sum, room, total) - sum;
    out[row + i] = make_uint4(before, before + v.x, before + v.x + v.y, before + v.x + v.y + v.z);
    carry += total;
  }
}

// ---- one long prefix sum: uint32 [n] to inclusive sums, n = a b; behind them room for the sums of tiles ----

// Tiles of 1,024 are scanned and written, then each gets what stands before it added: four passes over memory.
__global__ void __launch_bounds__(256) tiles_scan(uint4* out, unsigned* sums, const uint4* in) {
  __shared__ unsigned room[8];
  const int i = blockIdx.x * 256 + threadIdx.x;
  const uint4 v = in[i];
  unsigned total;
  const unsigned sum = v.x + v.y + v.z + v.w, before = scan_block(sum, room, total) - sum;
  out[i] = scan_four(v, before);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
// One block; afterwards sums[i] is what stands before tile i.
__global__ void __launch_bounds__(256) sums_scan(unsigned* sums, int tiles) {
  __shared__ unsigned room[8];
  unsigned carry = 0, total;
  for (int base = 0; base < tiles; base += 256) {
    const int i = base + threadIdx.x;
    const unsigned x = i < tiles ? sums[i] : 0, before = carry + scan_block(x, room, total) - x;
    if (i < tiles) sums[i] = before;
    carry += total;
  }
}
__global__ void tiles_add(uint4* out, const unsigned* sums) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const unsigned before = sums[blockIdx.x];
  uint4 v = out[i];
  v.x += before, v.y += before, v.z += before, v.w += before;
  out[i] = v;
}

// Tiles of 4,096 are only summed first and scanned when what stands before them is known: three passes.
__global__ void __launch_bounds__(256) tiles_sum(unsigned* sums, const uint4* in) {
  __shared__ unsigned room[8];
  unsigned sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint4 v = in[blockIdx.x * 1024 + k * 256 + threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
  }
  sum = __reduce_add_sync(FULL, sum);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned all = 0;
#pragma unroll
    for (int w = 0; w < 8; ++w) all += room[w];
    sums[blockIdx.x] = all;
  }
}
__global__ void __launch_bounds__(256) tiles_finish(uint4* out, const unsigned* sums, const uint4* in) {
  __shared__ unsigned room[8];
  unsigned carry = sums[blockIdx.x], total;
  uint4 v[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) v[k] = in[blockIdx.x * 1024 + k * 256 + threadIdx.x];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const unsigned sum = v[k].x + v[k].y + v[k].z + v[k].w;
    out[blockIdx.x * 1024 + k * 256 + threadIdx.x] = scan_four(v[k], carry + scan_block(sum, room, total) - sum);
    carry += total;
  }
}

}  // namespace

LAUNCHER(byte_counts_global) {
  zero_words<<<1, 256, 0, stream>>>((unsigned*)out, 256);
  bytes_global<<<div_up(a * b, 256), 256, 0, stream>>>((unsigned*)out, (const uint8_t*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(byte_counts_block) {
  zero_words<<<1, 256, 0, stream>>>((unsigned*)out, 256);
  bytes_block<<<min(div_up(a * b / 4, 256), 1056u), 256, 0, stream>>>((unsigned*)out, (const unsigned*)in, a * b / 4);
  return cudaGetLastError();
}
LAUNCHER(byte_counts_warps) {
  zero_words<<<1, 256, 0, stream>>>((unsigned*)out, 256);
  bytes_warps<<<min(div_up(a * b / 16, 256), 528u), 256, 0, stream>>>((unsigned*)out, (const uint4*)in, a * b / 16);
  return cudaGetLastError();
}
LAUNCHER(expert_choice_thread) {
  unsigned* counts = (unsigned*)out + a;
  zero_words<<<1, 128, 0, stream>>>(counts, b);
  route_thread<<<div_up(a, 128), 128, 0, stream>>>((int*)out, counts, (const float4*)in, a, b / 4);
  return cudaGetLastError();
}
LAUNCHER(expert_choice_warp) {
  unsigned* counts = (unsigned*)out + a;
  zero_words<<<1, 128, 0, stream>>>(counts, b);
  route_warp<<<div_up(a, 4), 128, 0, stream>>>((int*)out, counts, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(expert_choice_block) {
  unsigned* counts = (unsigned*)out + a;
  zero_words<<<1, 128, 0, stream>>>(counts, b);
  route_block<<<div_up(a, 64), 256, 0, stream>>>((int*)out, counts, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(row_offsets_double) {
  offsets_double<<<a, 1024, 0, stream>>>((unsigned*)out, (const unsigned*)in, b);
  return cudaGetLastError();
}
LAUNCHER(row_offsets_shuffle) {
  offsets_shuffle<<<a, 256, 0, stream>>>((unsigned*)out, (const unsigned*)in, b);
  return cudaGetLastError();
}
LAUNCHER(row_offsets_quads) {
  offsets_quads<<<a, 256, 0, stream>>>((uint4*)out, (const uint4*)in, b / 4);
  return cudaGetLastError();
}
LAUNCHER(long_scan_then_add) {
  unsigned* sums = (unsigned*)out + a * b;
  const int tiles = a * b / 1024;
  tiles_scan<<<tiles, 256, 0, stream>>>((uint4*)out, sums, (const uint4*)in);
  sums_scan<<<1, 256, 0, stream>>>(sums, tiles);
  tiles_add<<<tiles, 256, 0, stream>>>((uint4*)out, sums);
  return cudaGetLastError();
}
LAUNCHER(long_sum_then_scan) {
  unsigned* sums = (unsigned*)out + a * b;
  const int tiles = a * b / 4096;
  tiles_sum<<<tiles, 256, 0, stream>>>(sums, (const uint4*)in);
  sums_scan<<<1, 256, 0, stream>>>(sums, tiles);
  tiles_finish<<<tiles, 256, 0, stream>>>((uint4*)out, sums, (const uint4*)in);
  return cudaGetLastError();
}
