// Kernels whose data decide: histograms, gathers, scatters, compaction, divergence, interactions.
#include "common.cuh"

namespace {

__global__ void bins_global(unsigned* out, const unsigned* in, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(out + (in[i] & 255), 1u);
}

__global__ void bins_shared(unsigned* out, const unsigned* in, int n) {
  __shared__ unsigned count[256];
  count[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(count + (in[i] & 255), 1u);
  __syncthreads();
  atomicAdd(out + threadIdx.x, count[threadIdx.x]);
}

__global__ void bins_shared_of_warps(unsigned* out, const unsigned* in, int n) {
  __shared__ unsigned count[8][256];
  for (int i = threadIdx.x; i < 2048; i += 256) count[i / 256][i % 256] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
    atomicAdd(&count[threadIdx.x / 32][in[i] & 255], 1u);
  __syncthreads();
  unsigned sum = 0;
#pragma unroll
  for (int warp = 0; warp < 8; ++warp) sum += count[warp][threadIdx.x];
  atomicAdd(out + threadIdx.x, sum);
}

__device__ __forceinline__ unsigned anywhere(unsigned word, unsigned mask) { return word * 2654435761u >> 6 & mask; }

// `in` holds n words to draw places from, then n to gather from.
__global__ void gather_words(float* out, const unsigned* places, const float* from, unsigned mask) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = from[anywhere(places[i], mask)];
}

__global__ void gather_fours(float4* out, const unsigned* places, const float4* from, unsigned mask) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = from[anywhere(places[i], mask / 4)];
}

__global__ void scatter_anywhere(float* out, const unsigned* in, unsigned mask) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[anywhere(in[i], mask)] = __uint_as_float(in[i]);
}

// The same amount, but neighbours stay within 1 KiB of each other.
__global__ void scatter_nearby(float* out, const unsigned* in, unsigned mask) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[(i & ~255) | anywhere(in[i], 255)] = __uint_as_float(in[i]);
}

// Rows of b floats, chosen by the words of the first row's column.
__global__ void embed_words(float* out, const float* in, unsigned rows, int columns) {
  const unsigned from = anywhere(reinterpret_cast<const unsigned*>(in)[blockIdx.x], rows - 1);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[int64_t{blockIdx.x} * columns + i] = in[int64_t{from} * columns + i];
}

__global__ void embed_fours(float4* out, const float4* in, unsigned rows, int vectors) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const unsigned from = anywhere(reinterpret_cast<const unsigned*>(in)[row], rows - 1);
  for (int i = threadIdx.x % 32; i < vectors; i += 32) out[int64_t{row} * vectors + i] = in[int64_t{from} * vectors + i];
}

// Keeps the words whose lowest bit is set; out[0] counts.
__global__ void keep_one_by_one(unsigned* out, const unsigned* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n && (in[i] & 1)) out[1 + atomicAdd(out, 1u) % n] = in[i];
}

__global__ void keep_by_warps(unsigned* out, const unsigned* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % 32;
  const unsigned x = in[i];
  const bool keep = x & 1;
  const unsigned keepers = __ballot_sync(~0u, keep);
  unsigned first = 0;
  if (lane == 0 && keepers) first = atomicAdd(out, __popc(keepers));
  first = __shfl_sync(~0u, first, 0);
  if (keep) out[1 + (first + __popc(keepers & ((1u << lane) - 1))) % n] = x;
}

__device__ __forceinline__ float long_way(float x) {
#pragma unroll 4
  for (int k = 0; k < 32; ++k) x = x * 0.99f + __expf(-x);
  return x;
}
__device__ __forceinline__ float other_way(float x) {
#pragma unroll 4
  for (int k = 0; k < 32; ++k) x = rsqrtf(x + 1.5f) + 0.5f;
  return x;
}

__global__ void ways_by_lane(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = threadIdx.x % 2 ? long_way(in[i]) : other_way(in[i]);
}

__global__ void ways_by_warp(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  out[i] = threadIdx.x / 32 % 2 ? long_way(in[i]) : other_way(in[i]);
}

// How often a point must be squared until it escapes: neighbours differ near the edge of the set.
__device__ __forceinline__ int escape(float re, float im) {
  float x = 0, y = 0;
  int count = 0;
  while (count < 128 && x * x + y * y < 4) {
    const float next = x * x - y * y + re;
    y = 2 * x * y + im, x = next;
    ++count;
  }
  return count;
}

__global__ void escape_by_tiles(int* out, int width, int height) {
  const int lane = threadIdx.x % 32;
  const int x = blockIdx.x * 32 + threadIdx.x / 32 % 4 * 8 + lane % 8, y = blockIdx.y * 8 + threadIdx.x / 128 * 4 + lane / 8;
  out[int64_t{y} * width + x] = escape(3.0f * x / width - 2.2f, 2.4f * y / height - 1.2f);
}

__global__ void escape_by_columns(int* out, int width, int height) {
  const int y = blockIdx.x * 256 + threadIdx.x, x = blockIdx.y;
  if (y < height) out[int64_t{y} * width + x] = escape(3.0f * x / width - 2.2f, 2.4f * y / height - 1.2f);
}

__device__ __forceinline__ float pull(float4 p, float4 q) {
  const float x = q.x - p.x, y = q.y - p.y, z = q.z - p.z, squared = x * x + y * y + z * z + 0.01f;
  const float inverse = rsqrtf(squared);
  return q.w * inverse * inverse * inverse;
}

__global__ void pull_from_global(float* out, const float4* in, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  const float4 mine = in[i];
  float sum = 0;
#pragma unroll 4
  for (int j = 0; j < n; ++j) sum += pull(mine, in[j]);
  out[i] = sum;
}

__global__ void pull_from_shared(float* out, const float4* in, int n) {
  __shared__ float4 tile[128];
  const int i = blockIdx.x * 128 + threadIdx.x;
  const float4 mine = in[i];
  float sum = 0;
  for (int j = 0; j < n; j += 128) {
    __syncthreads();
    tile[threadIdx.x] = in[j + threadIdx.x];
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < 128; ++k) sum += pull(mine, tile[k]);
  }
  out[i] = sum;
}

}  // namespace

#define WORDS (unsigned*)out, (const unsigned*)in
LAUNCHER(histogram_in_global) { LAUNCH(bins_global, 528, 256, WORDS, a * b); }
LAUNCHER(histogram_in_shared) { LAUNCH(bins_shared, 528, 256, WORDS, a * b); }
LAUNCHER(histogram_of_warps) { LAUNCH(bins_shared_of_warps, 528, 256, WORDS, a * b); }
LAUNCHER(gather_by_words) {
  const unsigned* words = (const unsigned*)in;
  LAUNCH(gather_words, a * b / 256, 256, (float*)out, words, (const float*)(words + a * b), (unsigned)(a * b - 1));
}
LAUNCHER(gather_by_fours) {
  const unsigned* words = (const unsigned*)in;
  LAUNCH(gather_fours, a * b / 1024, 256, (float4*)out, words, (const float4*)(words + a * b), (unsigned)(a * b - 1));
}
LAUNCHER(scatter_far) { LAUNCH(scatter_anywhere, a * b / 256, 256, (float*)out, (const unsigned*)in, (unsigned)(a * b - 1)); }
LAUNCHER(scatter_near) { LAUNCH(scatter_nearby, a * b / 256, 256, (float*)out, (const unsigned*)in, (unsigned)(a * b - 1)); }
LAUNCHER(embed_by_words) { LAUNCH(embed_words, a, 256, (float*)out, (const float*)in, a, b); }
LAUNCHER(embed_by_fours) { LAUNCH(embed_fours, a / 4, 128, (float4*)out, (const float4*)in, a, b / 4); }
LAUNCHER(keep_each_alone) { LAUNCH(keep_one_by_one, a * b / 256, 256, WORDS, a * b); }
LAUNCHER(keep_together) { LAUNCH(keep_by_warps, a * b / 256, 256, WORDS, a * b); }
LAUNCHER(branch_by_lane) { LAUNCH(ways_by_lane, a * b / 256, 256, (float*)out, (const float*)in, a * b); }
LAUNCHER(branch_by_warp) { LAUNCH(ways_by_warp, a * b / 256, 256, (float*)out, (const float*)in, a * b); }
LAUNCHER(escape_in_tiles) { LAUNCH(escape_by_tiles, dim3(b / 32, a / 8), 256, (int*)out, b, a); }
LAUNCHER(escape_in_columns) { LAUNCH(escape_by_columns, dim3(cover(a, 256), b), 256, (int*)out, b, a); }
LAUNCHER(attract_from_global) { LAUNCH(pull_from_global, a / 128, 128, (float*)out, (const float4*)in, a); }
LAUNCHER(attract_from_shared) { LAUNCH(pull_from_shared, a / 128, 128, (float*)out, (const float4*)in, a); }
