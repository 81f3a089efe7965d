// Gates, quantisation to fp8 by group and by tensor, and rotary positions from a table.
#include "common.cuh"
#include <cuda_fp8.h>

namespace {

constexpr float ALPHA = 1.702f, LIMIT = 1.5f;

// Gate and up stand beside each other; both are clamped.
__device__ __forceinline__ float clamped(float2 pair) {
  const float gate = fminf(pair.x, LIMIT), up = fmaxf(fminf(pair.y, LIMIT), -LIMIT);
  return gate / (1.0f + __expf(-ALPHA * gate)) * (up + 1.0f);
}

__global__ void clamped_one(__half* out, const __half2* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = __float2half(clamped(__half22float2(in[i])));
}

struct alignas(8) Four {
  __half2 h[2];
};

__device__ __forceinline__ Four clamped_four(const Pack& x) {
  Four y;
#pragma unroll
  for (int j = 0; j < 2; ++j)
    y.h[j] = __floats2half2_rn(clamped(__half22float2(x.h[2 * j])), clamped(__half22float2(x.h[2 * j + 1])));
  return y;
}

__global__ void clamped_fours(Four* out, const Pack* in, int fours) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < fours) out[i] = clamped_four(in[i]);
}

__global__ void clamped_eights(Pack* out, const Pack* in, int packs) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= packs) return;
  const Pack first = in[2 * i], second = in[2 * i + 1];
  const Four u = clamped_four(first), v = clamped_four(second);
  out[i] = Pack{{u.h[0], u.h[1], v.h[0], v.h[1]}};
}

__global__ void __launch_bounds__(512) clamped_loop(Four* out, const Pack* in, int fours) {
  for (int i = blockIdx.x * 512 + threadIdx.x; i < fours; i += gridDim.x * 512) out[i] = clamped_four(in[i]);
}

// 128 numbers share a scale; scales of a group of columns stand together.
__global__ void group_tree(uint8_t* codes, float* scales, const __half* in, int rows, int groups) {
  __shared__ float tree[128];
  const int t = threadIdx.x, row = blockIdx.x / groups, group = blockIdx.x % groups;
  const int64_t at = int64_t{blockIdx.x} * 128 + t;
  const float x = __half2float(in[at]);
  tree[t] = fabsf(x);
  __syncthreads();
  for (int half = 64; half; half /= 2) {
    if (t < half) tree[t] = fmaxf(tree[t], tree[t + half]);
    __syncthreads();
  }
  const float scale = fmaxf(tree[0], 1e-10f) / 448.0f;
  if (t == 0) scales[group * rows + row] = scale;
  codes[at] = __nv_cvt_float_to_fp8(x / scale, __NV_SATFINITE, __NV_E4M3);
}

__device__ __forceinline__ uint32_t fp8_four(float2 x, float2 y, float factor) {
  const uint32_t low = __nv_cvt_float2_to_fp8x2(make_float2(x.x * factor, x.y * factor), __NV_SATFINITE, __NV_E4M3);
  const uint32_t high = __nv_cvt_float2_to_fp8x2(make_float2(y.x * factor, y.y * factor), __NV_SATFINITE, __NV_E4M3);
  return low | high << 16;
}

__global__ void group_warp(uint32_t* codes, float* scales, const Four* in, int rows, int groups) {
  const int each = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (each >= rows * groups) return;
  const Four x = in[each * 32 + lane];
  const float2 p = __half22float2(x.h[0]), q = __half22float2(x.h[1]);
  const float most = lanes_max(fmaxf(fmaxf(fabsf(p.x), fabsf(p.y)), fmaxf(fabsf(q.x), fabsf(q.y))));
  const float scale = fmaxf(most, 1e-10f) / 448.0f;
  if (lane == 0) scales[each % groups * rows + each / groups] = scale;
  codes[each * 32 + lane] = fp8_four(p, q, 1.0f / scale);
}

// The largest is found among halves.
__global__ void group_sixteen(uint2* codes, float* scales, const Pack* in, int rows, int groups) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= rows * groups * 16) return;
  const Pack x = in[i];
  __half2 most = __hmax2(__hmax2(__habs2(x.h[0]), __habs2(x.h[1])), __hmax2(__habs2(x.h[2]), __habs2(x.h[3])));
#pragma unroll
  for (int step = 8; step; step /= 2) most = __hmax2(most, __shfl_xor_sync(ALL, most, step));
  const float scale = fmaxf(fmaxf(__low2float(most), __high2float(most)), 1e-10f) / 448.0f, factor = 1.0f / scale;
  const int each = i / 16;
  if (i % 16 == 0) scales[each % groups * rows + each / groups] = scale;
  codes[i] = make_uint2(fp8_four(__half22float2(x.h[0]), __half22float2(x.h[1]), factor),
                        fp8_four(__half22float2(x.h[2]), __half22float2(x.h[3]), factor));
}

// One scale for everything, found by a launch in front.
__global__ void clear_one(unsigned* word) { *word = 0; }

__global__ void largest_of_warps(unsigned* most, const __half* in, int n) {
  float x = 0.0f;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) x = fmaxf(x, fabsf(__half2float(in[i])));
  x = lanes_max(x);
  if (threadIdx.x % 32 == 0) atomicMax(most, __float_as_uint(x));
}

__global__ void by_largest_one(uint8_t* codes, float* scale, const unsigned* most, const __half* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float s = __uint_as_float(*most) / 448.0f;
  if (i == 0) *scale = s;
  if (i < n) codes[i] = __nv_cvt_float_to_fp8(__half2float(in[i]) / s, __NV_SATFINITE, __NV_E4M3);
}

__device__ __forceinline__ float largest_of(const Pack& x) {
  const __half2 m = __hmax2(__hmax2(__habs2(x.h[0]), __habs2(x.h[1])), __hmax2(__habs2(x.h[2]), __habs2(x.h[3])));
  return fmaxf(__low2float(m), __high2float(m));
}

__device__ __forceinline__ uint2 fp8_eight(const Pack& x, float factor) {
  return make_uint2(fp8_four(__half22float2(x.h[0]), __half22float2(x.h[1]), factor),
                    fp8_four(__half22float2(x.h[2]), __half22float2(x.h[3]), factor));
}

__global__ void __launch_bounds__(512) largest_of_blocks(unsigned* most, const Pack* in, int packs) {
  __shared__ float room[16];
  float x = 0.0f;
#pragma unroll 4
  for (int i = blockIdx.x * 512 + threadIdx.x; i < packs; i += gridDim.x * 512) x = fmaxf(x, largest_of(in[i]));
  x = block_max(x, room);
  if (threadIdx.x == 0) atomicMax(most, __float_as_uint(x));
}

__global__ void __launch_bounds__(512) by_largest_eights(uint2* codes, float* scale, const unsigned* most, const Pack* in,
                                                         int packs) {
  const float s = __uint_as_float(*most) / 448.0f, factor = 1.0f / s;
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = s;
#pragma unroll 4
  for (int i = blockIdx.x * 512 + threadIdx.x; i < packs; i += gridDim.x * 512) codes[i] = fp8_eight(in[i], factor);
}

// Without atomics: each block keeps its largest, and all of the next launch look at all of them.
__global__ void __launch_bounds__(256) largest_kept(float* kept, const Pack* in, int packs) {
  __shared__ float room[8];
  float x = 0.0f;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < packs; i += gridDim.x * 256) x = fmaxf(x, largest_of(in[i]));
  x = block_max(x, room);
  if (threadIdx.x == 0) kept[blockIdx.x] = x;
}

__global__ void __launch_bounds__(256) by_kept(uint2* codes, float* scale, const float* kept, int parts, const Pack* in,
                                               int packs) {
  __shared__ float room[8];
  float x = 0.0f;
  for (int i = threadIdx.x; i < parts; i += 256) x = fmaxf(x, kept[i]);
  const float s = block_max(x, room) / 448.0f;
  if (blockIdx.x == 0 && threadIdx.x == 0) *scale = s;
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < packs) codes[i] = fp8_eight(in[i], 1.0f / s);
}

// Numbers i and i + 64 of a head turn together; a position's line of the table is 64 cosines and 64 sines.
__global__ void rotary_one(__half* out, const int* positions, const float* table, const __half* in, int heads, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int d = i % 64, head = i / 64;
  const float* line = table + positions[head / heads] * 128;
  const int64_t at = int64_t{head} * 128 + d;
  const float x = __half2float(in[at]), y = __half2float(in[at + 64]), c = line[d], s = line[d + 64];
  out[at] = __float2half(x * c - y * s);
  out[at + 64] = __float2half(y * c + x * s);
}

__global__ void rotary_eights(Pack* out, const int* positions, const float4* table, const Pack* in, int heads, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  const int d = i % 8, head = i / 8;
  const float4* line = table + positions[head / heads] * 32 + 2 * d;
  const Pack x = in[head * 16 + d], y = in[head * 16 + d + 8];
  const float4 c[2] = {line[0], line[1]}, s[2] = {line[16], line[17]};
  Pack u, v;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 p = __half22float2(x.h[j]), q = __half22float2(y.h[j]);
    const float2 cos = j % 2 ? make_float2(c[j / 2].z, c[j / 2].w) : make_float2(c[j / 2].x, c[j / 2].y);
    const float2 sin = j % 2 ? make_float2(s[j / 2].z, s[j / 2].w) : make_float2(s[j / 2].x, s[j / 2].y);
    u.h[j] = __floats2half2_rn(p.x * cos.x - q.x * sin.x, p.y * cos.y - q.y * sin.y);
    v.h[j] = __floats2half2_rn(q.x * cos.x + p.x * sin.x, q.y * cos.y + p.y * sin.y);
  }
  out[head * 16 + d] = u;
  out[head * 16 + d + 8] = v;
}

// A block for a token: its line of the table is read once, and a lane keeps its part over all heads.
__global__ void rotary_token(__half2* out, const int* positions, const float2* table, const __half2* in, int heads) {
  const int token = blockIdx.x, lane = threadIdx.x % 32;
  const float2* line = table + positions[token] * 64;
  const float2 c = line[lane], s = line[lane + 32];
  for (int head = threadIdx.x / 32; head < heads; head += 8) {
    const int64_t at = (int64_t{token} * heads + head) * 64 + lane;
    const float2 x = __half22float2(in[at]), y = __half22float2(in[at + 32]);
    out[at] = __floats2half2_rn(x.x * c.x - y.x * s.x, x.y * c.y - y.y * s.y);
    out[at + 32] = __floats2half2_rn(y.x * c.x + x.x * s.x, y.y * c.y + x.y * s.y);
  }
}

constexpr int POSITIONS = 2048;

}  // namespace

LAUNCHER(clamped_gate_each) {
  clamped_one<<<ceil_div(a * b, 256), 256, 0, stream>>>((__half*)out, (const __half2*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(clamped_gate_fours) {
  clamped_fours<<<ceil_div(a * b, 1024), 256, 0, stream>>>((Four*)out, (const Pack*)in, a * b / 4);
  return cudaGetLastError();
}
LAUNCHER(clamped_gate_eights) {
  clamped_eights<<<ceil_div(a * b, 2048), 256, 0, stream>>>((Pack*)out, (const Pack*)in, a * b / 8);
  return cudaGetLastError();
}
LAUNCHER(clamped_gate_loop) {
  clamped_loop<<<264, 512, 0, stream>>>((Four*)out, (const Pack*)in, a * b / 4);
  return cudaGetLastError();
}
LAUNCHER(fp8_group_tree) {
  group_tree<<<a * b / 128, 128, 0, stream>>>((uint8_t*)out, (float*)((char*)out + a * b), (const __half*)in, a, b / 128);
  return cudaGetLastError();
}
LAUNCHER(fp8_group_warp) {
  group_warp<<<ceil_div(a * b, 1024), 256, 0, stream>>>((uint32_t*)out, (float*)((char*)out + a * b), (const Four*)in, a,
                                                       b / 128);
  return cudaGetLastError();
}
LAUNCHER(fp8_group_sixteen) {
  group_sixteen<<<ceil_div(a * b, 2048), 256, 0, stream>>>((uint2*)out, (float*)((char*)out + a * b), (const Pack*)in, a,
                                                          b / 128);
  return cudaGetLastError();
}
LAUNCHER(fp8_tensor_scalar) {
  float* scale = (float*)((char*)out + a * b);
  unsigned* most = (unsigned*)scale + 1;
  clear_one<<<1, 1, 0, stream>>>(most);
  largest_of_warps<<<1056, 256, 0, stream>>>(most, (const __half*)in, a * b);
  by_largest_one<<<ceil_div(a * b, 256), 256, 0, stream>>>((uint8_t*)out, scale, most, (const __half*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(fp8_tensor_eights) {
  float* scale = (float*)((char*)out + a * b);
  unsigned* most = (unsigned*)scale + 1;
  clear_one<<<1, 1, 0, stream>>>(most);
  largest_of_blocks<<<264, 512, 0, stream>>>(most, (const Pack*)in, a * b / 8);
  by_largest_eights<<<264, 512, 0, stream>>>((uint2*)out, scale, most, (const Pack*)in, a * b / 8);
  return cudaGetLastError();
}
LAUNCHER(fp8_tensor_kept) {
  float* scale = (float*)((char*)out + a * b);
  largest_kept<<<528, 256, 0, stream>>>(scale + 1, (const Pack*)in, a * b / 8);
  by_kept<<<ceil_div(a * b, 2048), 256, 0, stream>>>((uint2*)out, scale, scale + 1, 528, (const Pack*)in, a * b / 8);
  return cudaGetLastError();
}
LAUNCHER(table_rotary_each) {
  const float* table = (const float*)in + a;
  const __half* x = (const __half*)(table + POSITIONS * 128);
  rotary_one<<<ceil_div(a * b, 4), 256, 0, stream>>>((__half*)out, (const int*)in, table, x, b, a * b * 64);
  return cudaGetLastError();
}
LAUNCHER(table_rotary_eights) {
  const float* table = (const float*)in + a;
  const Pack* x = (const Pack*)(table + POSITIONS * 128);
  rotary_eights<<<ceil_div(a * b, 16), 128, 0, stream>>>((Pack*)out, (const int*)in, (const float4*)table, x, b, a * b * 8);
  return cudaGetLastError();
}
LAUNCHER(table_rotary_token) {
  const float* table = (const float*)in + a;
  const __half2* x = (const __half2*)(table + POSITIONS * 128);
  rotary_token<<<a, 256, 0, stream>>>((__half2*)out, (const int*)in, (const float2*)table, x, b);
  return cudaGetLastError();
}
