// Around attention: keys into pages, rows out of a cache of int8, partial results joined, heads with a shared end.
#include "common.cuh"

namespace {

// A page has 16 tokens; within it stand, for each head, 16 eighths of 128 numbers, of each all tokens.
__global__ void pages_one(__half* out, const __half* in, int heads, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int d = i % 128, head = i / 128 % heads, token = i / 128 / heads;
  const int64_t page = int64_t{token / 16} * heads + head;
  out[((page * 16 + d / 8) * 16 + token % 16) * 8 + d % 8] = in[i];
}

__global__ void pages_eights(Pack* out, const Pack* in, int heads, int packs) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= packs) return;
  const int eighth = i % 16, head = i / 16 % heads, token = i / 16 / heads;
  out[((int64_t{token / 16} * heads + head) * 16 + eighth) * 16 + token % 16] = in[i];
}

// 16 tokens of a head turn around in shared memory.
__global__ void __launch_bounds__(256) pages_tile(Pack* out, const Pack* in, int heads) {
  __shared__ Pack tile[16][17];
  const int page = blockIdx.x, head = blockIdx.y, t = threadIdx.x;
  tile[t / 16][t % 16] = in[((int64_t{page} * 16 + t / 16) * heads + head) * 16 + t % 16];
  __syncthreads();
  out[(int64_t{page} * heads + head) * 256 + t] = tile[t % 16][t / 16];
}

// Rows of int8, each with its scale, wherever a slot says.
__global__ void wide_one(__half* out, const int* slots, const float* scales, const int8_t* rows, int columns) {
  const int slot = slots[blockIdx.x];
  const float scale = scales[slot];
  for (int i = threadIdx.x; i < columns; i += 128)
    out[int64_t{blockIdx.x} * columns + i] = __float2half(rows[int64_t{slot} * columns + i] * scale);
}

struct alignas(8) Four {
  __half2 h[2];
};

__device__ __forceinline__ Four widened(char4 x, float scale) {
  return Four{{__floats2half2_rn(x.x * scale, x.y * scale), __floats2half2_rn(x.z * scale, x.w * scale)}};
}

__global__ void wide_four(Four* out, const int* slots, const float* scales, const char4* rows, int vectors) {
  const int slot = slots[blockIdx.x];
  const float scale = scales[slot];
  for (int i = threadIdx.x; i < vectors; i += 128)
    out[int64_t{blockIdx.x} * vectors + i] = widened(rows[int64_t{slot} * vectors + i], scale);
}

union Sixteen {
  int4 raw;
  char4 four[4];
};

// Two rows a block of 128: a thread for sixteen numbers of 1024.
__global__ void wide_sixteen(Pack* out, const int* slots, const float* scales, const int4* rows, int columns) {
  const int vectors = columns / 16, i = blockIdx.x * 128 + threadIdx.x, row = i / vectors;
  const int slot = slots[row];
  const float scale = scales[slot];
  Sixteen x;
  x.raw = __ldg(rows + int64_t{slot} * vectors + i % vectors);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const Four u = widened(x.four[2 * j], scale), v = widened(x.four[2 * j + 1], scale);
    out[2 * int64_t{i} + j] = Pack{{u.h[0], u.h[1], v.h[0], v.h[1]}};
  }
}

// Eight partial results of attention, 128 numbers each, weighed by what their softmax summed to.
constexpr int SPLITS = 8;

__global__ void join_one(__half* out, const float* lse, const float* part) {
  const int64_t row = blockIdx.x;
  float most = -1e30f;
  for (int s = 0; s < SPLITS; ++s) most = fmaxf(most, lse[row * SPLITS + s]);
  float total = 0.0f, sum = 0.0f;
  for (int s = 0; s < SPLITS; ++s) {
    const float weight = expf(lse[row * SPLITS + s] - most);
    total += weight;
    sum += weight * part[(row * SPLITS + s) * 128 + threadIdx.x];
  }
  out[row * 128 + threadIdx.x] = __float2half(sum / total);
}

// A warp for a row: each weight is found once, then shuffled.
__global__ void join_warp(Four* out, const float* lse, const float4* part, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float4 x[SPLITS];
#pragma unroll
  for (int s = 0; s < SPLITS; ++s) x[s] = part[(int64_t{row} * SPLITS + s) * 32 + lane];
  const float mine = lse[row * SPLITS + lane % SPLITS];
  float weight = __expf(mine - lanes_max<SPLITS>(mine));
  weight /= lanes_sum<SPLITS>(weight);
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int s = 0; s < SPLITS; ++s) {
    const float w = __shfl_sync(ALL, weight, s);
    sum.x += w * x[s].x, sum.y += w * x[s].y, sum.z += w * x[s].z, sum.w += w * x[s].w;
  }
  out[row * 32 + lane] = Four{{__floats2half2_rn(sum.x, sum.y), __floats2half2_rn(sum.z, sum.w)}};
}

// One after the other, with a maximum that may grow: nothing is known in advance.
__global__ void join_online(Four* out, const float* lse, const float4* part, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int row = i / 32, d = i % 32;
  float most = -1e30f, total = 0.0f;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
  for (int s = 0; s < SPLITS; ++s) {
    const float now = lse[row * SPLITS + s], larger = fmaxf(most, now);
    const float old = __expf(most - larger), weight = __expf(now - larger);
    const float4 x = part[(int64_t{row} * SPLITS + s) * 32 + d];
    sum.x = sum.x * old + weight * x.x, sum.y = sum.y * old + weight * x.y;
    sum.z = sum.z * old + weight * x.z, sum.w = sum.w * old + weight * x.w;
    total = total * old + weight;
    most = larger;
  }
  const float scale = 1.0f / total;
  out[i] = Four{{__floats2half2_rn(sum.x * scale, sum.y * scale), __floats2half2_rn(sum.z * scale, sum.w * scale)}};
}

// A head's key is 128 numbers of its own and 64 that all heads of a token share.
__global__ void latent_one(__half* out, const __half* own, const __half* shared, int heads, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int d = i % 192, head = i / 192;
  out[i] = d < 128 ? own[head * 128 + d] : shared[head / heads * 64 + d - 128];
}

// 24 lanes of a warp copy a head.
__global__ void latent_warp(Pack* out, const Pack* own, const Pack* shared, int heads, int n) {
  const int head = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (head >= n || lane >= 24) return;
  out[int64_t{head} * 24 + lane] = lane < 16 ? own[int64_t{head} * 16 + lane] : shared[head / heads * 8 + lane - 16];
}

// A block for a token: 8 threads hold what all heads share; every 24 threads copy a head.
__global__ void __launch_bounds__(192) latent_token(Pack* out, const Pack* own, const Pack* shared, int heads) {
  const int part = threadIdx.x % 24, token = blockIdx.x;
  Pack x;
  if (part >= 16) x = shared[token * 8 + part - 16];
#pragma unroll 4
  for (int head = threadIdx.x / 24; head < heads; head += 8) {
    const int64_t at = int64_t{token} * heads + head;
    if (part < 16) x = own[at * 16 + part];
    out[at * 24 + part] = x;
  }
}

}  // namespace

LAUNCHER(paged_keys_each) {
  pages_one<<<ceil_div(a * b, 2), 256, 0, stream>>>((__half*)out, (const __half*)in, b, a * b * 128);
  return cudaGetLastError();
}
LAUNCHER(paged_keys_eights) {
  pages_eights<<<ceil_div(a * b, 16), 256, 0, stream>>>((Pack*)out, (const Pack*)in, b, a * b * 16);
  return cudaGetLastError();
}
LAUNCHER(paged_keys_tile) {
  pages_tile<<<dim3(a / 16, b), 256, 0, stream>>>((Pack*)out, (const Pack*)in, b);
  return cudaGetLastError();
}
LAUNCHER(int8_rows_each) {
  const float* scales = (const float*)in + a;
  wide_one<<<a, 128, 0, stream>>>((__half*)out, (const int*)in, scales, (const int8_t*)(scales + a), b);
  return cudaGetLastError();
}
LAUNCHER(int8_rows_fours) {
  const float* scales = (const float*)in + a;
  wide_four<<<a, 128, 0, stream>>>((Four*)out, (const int*)in, scales, (const char4*)(scales + a), b / 4);
  return cudaGetLastError();
}
LAUNCHER(int8_rows_sixteen) {
  const float* scales = (const float*)in + a;
  wide_sixteen<<<a * b / 2048, 128, 0, stream>>>((Pack*)out, (const int*)in, scales, (const int4*)(scales + a), b);
  return cudaGetLastError();
}
LAUNCHER(joined_splits_each) {
  join_one<<<a * b, 128, 0, stream>>>((__half*)out, (const float*)in, (const float*)in + SPLITS * a * b);
  return cudaGetLastError();
}
LAUNCHER(joined_splits_warp) {
  join_warp<<<ceil_div(a * b, 4), 128, 0, stream>>>((Four*)out, (const float*)in,
                                                   (const float4*)((const float*)in + SPLITS * a * b), a * b);
  return cudaGetLastError();
}
LAUNCHER(joined_splits_online) {
  join_online<<<ceil_div(a * b, 8), 256, 0, stream>>>((Four*)out, (const float*)in,
                                                     (const float4*)((const float*)in + SPLITS * a * b), a * b * 32);
  return cudaGetLastError();
}
LAUNCHER(latent_keys_each) {
  const __half* shared = (const __half*)in;
  latent_one<<<ceil_div(a * b * 3, 4), 256, 0, stream>>>((__half*)out, shared + 64 * a, shared, b, a * b * 192);
  return cudaGetLastError();
}
LAUNCHER(latent_keys_warp) {
  const Pack* shared = (const Pack*)in;
  latent_warp<<<ceil_div(a * b, 8), 256, 0, stream>>>((Pack*)out, shared + 8 * a, shared, b, a * b);
  return cudaGetLastError();
}
LAUNCHER(latent_keys_token) {
  const Pack* shared = (const Pack*)in;
  latent_token<<<a, 192, 0, stream>>>((Pack*)out, shared + 8 * a, shared, b);
  return cudaGetLastError();
}
