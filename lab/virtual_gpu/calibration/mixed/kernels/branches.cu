// Lanes that go different ways: rows of unequal length, a function chosen by each element, loops that end when they end.
#include <cmath>

#include "common.cuh"

namespace {

// ---- sums of the first lengths[i] of each row: lengths int32 [a] below b, then fp32 [a, b]; to fp32 [a] ----

__global__ void ragged_thread(float* out, const int* lengths, const float* in, int rows, int columns) {
  const int row = blockIdx.x * 128 + threadIdx.x;
  if (row >= rows) return;
  const float* mine = in + int64_t{row} * columns;
  const int length = lengths[row];
  float sum = 0.0f;
  for (int i = 0; i < length; ++i) sum += mine[i];
  out[row] = sum;
}

template <int LANES>
__global__ void ragged_lanes(float* out, const int* lengths, const float* in, int rows, int columns) {
  const int row = (blockIdx.x * 256 + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
  if (row >= rows) return;
  const float* mine = in + int64_t{row} * columns;
  const int length = lengths[row];
  float sum = 0.0f;
  for (int i = lane; i < length; i += LANES) sum += mine[i];
#pragma unroll
  for (int mask = LANES / 2; mask > 0; mask >>= 1) sum += __shfl_xor_sync(FULL, sum, mask);
  if (lane == 0) out[row] = sum;
}

// ---- one of four functions by element: kinds int32 [n] below 4, then fp32 [n]; to fp32 [n], n = a b ----

__device__ __forceinline__ float bump(float x) { return expf(-x * x); }
__device__ __forceinline__ float slow_log(float x) { return log1pf(x) * sqrtf(x); }
__device__ __forceinline__ float fold(float x) {
  float y = x;
#pragma unroll 1
  for (int k = 0; k < 12; ++k) y = fmaf(y, 0.9f, x / (1.0f + y));
  return y;
}
__device__ __forceinline__ float cubic(float x) { return fmaf(fmaf(fmaf(x, 0.25f, -0.5f), x, 1.5f), x, 0.125f); }

__device__ __forceinline__ float apply(int kind, float x) {
  switch (kind) {
    case 0: return bump(x);
    case 1: return slow_log(x);
    case 2: return fold(x);
    default: return cubic(x);
  }
}

__global__ void kinds_switch(float* out, const int* kinds, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = apply(kinds[i], in[i]);
}

// Every lane works out all four and keeps one.
__global__ void kinds_all(float* out, const int* kinds, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float x = in[i], p = bump(x), q = slow_log(x), r = fold(x), s = cubic(x);
  const int kind = kinds[i];
  out[i] = kind == 0 ? p : kind == 1 ? q : kind == 2 ? r : s;
}

// A block puts its 1,024 elements in order of kind first, so that most warps have one kind only.
__global__ void __launch_bounds__(256) kinds_sorted(float* out, const int* kinds, const float* in) {
  __shared__ float value[1024];
  __shared__ uint16_t place[1024];
  __shared__ uint8_t kind_of[1024];
  __shared__ int next[4];
  const int base = blockIdx.x * 1024, t = threadIdx.x;
  int kind[4];
  float x[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) kind[k] = kinds[base + k * 256 + t], x[k] = in[base + k * 256 + t];
  if (t < 4) next[t] = 0;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) atomicAdd(next + kind[k], 1);
  __syncthreads();
  if (t == 0) {
    int before = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int here = next[k];
      next[k] = before;
      before += here;
    }
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int slot = atomicAdd(next + kind[k], 1);
    value[slot] = x[k], kind_of[slot] = kind[k], place[slot] = k * 256 + t;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int slot = k * 256 + t;
    value[slot] = apply(kind_of[slot], value[slot]);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int slot = k * 256 + t;
    out[base + place[slot]] = value[slot];
  }
}

// ---- greatest common divisors of pairs: uint32 [n, 2] to uint32 [n], n = a b ----

__global__ void divisors_remainders(unsigned* out, const uint2* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  unsigned x = in[i].x, y = in[i].y;
  while (y) {
    const unsigned rest = x % y;
    x = y, y = rest;
  }
  out[i] = x;
}

__global__ void divisors_shifts(unsigned* out, const uint2* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  unsigned x = in[i].x, y = in[i].y;
  const int common = __ffs(x | y) - 1;
  x >>= __ffs(x) - 1;
  do {
    y >>= __ffs(y) - 1;
    const unsigned smaller = min(x, y), larger = max(x, y);
    x = smaller, y = larger - smaller;
  } while (y);
  out[i] = x << common;
}

}  // namespace

LAUNCHER(ragged_sum_thread) {
  ragged_thread<<<div_up(a, 128), 128, 0, stream>>>((float*)out, (const int*)in, (const float*)in + a, a, b);
  return cudaGetLastError();
}
LAUNCHER(ragged_sum_eight) {
  ragged_lanes<8><<<div_up(a, 32), 256, 0, stream>>>((float*)out, (const int*)in, (const float*)in + a, a, b);
  return cudaGetLastError();
}
LAUNCHER(ragged_sum_warp) {
  ragged_lanes<32><<<div_up(a, 8), 256, 0, stream>>>((float*)out, (const int*)in, (const float*)in + a, a, b);
  return cudaGetLastError();
}
LAUNCHER(function_by_switch) {
  kinds_switch<<<div_up(a * b, 256), 256, 0, stream>>>((float*)out, (const int*)in, (const float*)in + a * b, a * b);
  return cudaGetLastError();
}
LAUNCHER(function_of_all) {
  kinds_all<<<div_up(a * b, 256), 256, 0, stream>>>((float*)out, (const int*)in, (const float*)in + a * b, a * b);
  return cudaGetLastError();
}
LAUNCHER(function_when_sorted) {
  kinds_sorted<<<a * b / 1024, 256, 0, stream>>>((float*)out, (const int*)in, (const float*)in + a * b);
  return cudaGetLastError();
}
LAUNCHER(common_divisor_remainders) {
  divisors_remainders<<<div_up(a * b, 256), 256, 0, stream>>>((unsigned*)out, (const uint2*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(common_divisor_shifts) {
  divisors_shifts<<<div_up(a * b, 256), 256, 0, stream>>>((unsigned*)out, (const uint2*)in, a * b);
  return cudaGetLastError();
}
