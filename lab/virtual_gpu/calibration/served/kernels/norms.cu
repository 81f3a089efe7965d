// Norms of models that run behind a gate, in front of an fp8 product, and over each head.
#include "common.cuh"
#include <cuda_fp8.h>

namespace {

constexpr float EPS = 1e-6f;

// x * silu(gate), normed by its root mean square, times a weight. A tree of sums; what was gated is gated again.
__global__ void gated_tree(__half* out, const __half* weight, const __half* x, const __half* gate, int columns) {
  __shared__ float tree[256];
  const int t = threadIdx.x;
  const int64_t row = int64_t{blockIdx.x} * columns;
  float sum = 0.0f;
  for (int i = t; i < columns; i += 256) {
    const float y = __half2float(x[row + i]) * silu(__half2float(gate[row + i]));
    sum += y * y;
  }
  tree[t] = sum;
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (t < half) tree[t] += tree[t + half];
    __syncthreads();
  }
  const float scale = rsqrtf(tree[0] / columns + EPS);
  for (int i = t; i < columns; i += 256) {
    const float y = __half2float(x[row + i]) * silu(__half2float(gate[row + i]));
    out[row + i] = __float2half(y * scale * __half2float(weight[i]));
  }
}

// What was gated waits in shared memory.
__global__ void gated_shared(__half2* out, const __half2* weight, const __half2* x, const __half2* gate, int pairs) {
  extern __shared__ float2 gated[];
  __shared__ float room[8];
  const int64_t row = int64_t{blockIdx.x} * pairs;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < pairs; i += 256) {
    const float2 u = __half22float2(x[row + i]), g = __half22float2(gate[row + i]);
    const float2 y = make_float2(u.x * silu(g.x), u.y * silu(g.y));
    gated[i] = y;
    sum += y.x * y.x + y.y * y.y;
  }
  const float scale = rsqrtf(block_sum(sum, room) / (2 * pairs) + EPS);
  for (int i = threadIdx.x; i < pairs; i += 256) {
    const float2 w = __half22float2(weight[i]), y = gated[i];
    out[row + i] = __floats2half2_rn(y.x * scale * w.x, y.y * scale * w.y);
  }
}

__device__ __forceinline__ float gate_pack(float2 (&y)[4], const Pack& u, const Pack& g) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 p = __half22float2(u.h[j]), q = __half22float2(g.h[j]);
    y[j] = make_float2(p.x * silu(q.x), p.y * silu(q.y));
    sum += y[j].x * y[j].x + y[j].y * y[j].y;
  }
  return sum;
}

__device__ __forceinline__ Pack weigh_pack(const float2 (&y)[4], const Pack& weight, float scale) {
  Pack result;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 w = __half22float2(weight.h[j]);
    result.h[j] = __floats2half2_rn(y[j].x * scale * w.x, y[j].y * scale * w.y);
  }
  return result;
}

// A thread holds its eight numbers.
__global__ void gated_held(Pack* out, const Pack* weight, const Pack* x, const Pack* gate) {
  __shared__ float room[32];
  const int t = threadIdx.x, packs = blockDim.x;
  const int64_t at = int64_t{blockIdx.x} * packs + t;
  float2 y[4];
  const float sum = gate_pack(y, x[at], gate[at]);
  const Pack w = weight[t];
  out[at] = weigh_pack(y, w, rsqrtf(block_sum(sum, room) / (8 * packs) + EPS));
}

// A warp for a row: no barrier, but everything is read twice.
__global__ void gated_warp(Pack* out, const Pack* weight, const Pack* x, const Pack* gate, int rows, int packs) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const int64_t start = int64_t{row} * packs;
  float2 y[4];
  float sum = 0.0f;
#pragma unroll 2
  for (int i = lane; i < packs; i += 32) sum += gate_pack(y, x[start + i], gate[start + i]);
  const float scale = rsqrtf(lanes_sum(sum) / (8 * packs) + EPS);
#pragma unroll 2
  for (int i = lane; i < packs; i += 32) {
    gate_pack(y, x[start + i], gate[start + i]);
    out[start + i] = weigh_pack(y, weight[i], scale);
  }
}

// The residual is added and kept, the sum normed and weighed, and the result quantised by its row's largest.
__global__ void fp8_norm_passes(__half* kept, uint8_t* codes, float* scales, const __half* weight, const __half* x,
                                const __half* residual, int columns) {
  __shared__ float tree[256];
  const int t = threadIdx.x;
  const int64_t row = int64_t{blockIdx.x} * columns;
  float sum = 0.0f;
  for (int i = t; i < columns; i += 256) {
    const float y = __half2float(x[row + i]) + __half2float(residual[row + i]);
    kept[row + i] = __float2half(y);
    sum += y * y;
  }
  tree[t] = sum;
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (t < half) tree[t] += tree[t + half];
    __syncthreads();
  }
  const float norm = rsqrtf(tree[0] / columns + EPS);
  __syncthreads();
  float largest = 0.0f;
  for (int i = t; i < columns; i += 256)
    largest = fmaxf(largest, fabsf(__half2float(kept[row + i]) * norm * __half2float(weight[i])));
  tree[t] = largest;
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (t < half) tree[t] = fmaxf(tree[t], tree[t + half]);
    __syncthreads();
  }
  const float scale = tree[0] / 448.0f;
  if (t == 0) scales[blockIdx.x] = scale;
  for (int i = t; i < columns; i += 256) {
    const float y = __half2float(kept[row + i]) * norm * __half2float(weight[i]) / scale;
    codes[row + i] = __nv_cvt_float_to_fp8(y, __NV_SATFINITE, __NV_E4M3);
  }
}

__device__ __forceinline__ uint16_t fp8_pair(float x, float y) {
  return __nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, __NV_E4M3);
}

// The norm is a factor of the row: its largest is found along with its squares.
__global__ void fp8_norm_pairs(__half2* kept, uint16_t* codes, float* scales, const __half2* weight, const __half2* x,
                               const __half2* residual, int pairs) {
  __shared__ float sums[8], maxima[8];
  const int64_t row = int64_t{blockIdx.x} * pairs;
  float sum = 0.0f, largest = 0.0f;
  for (int i = threadIdx.x; i < pairs; i += 256) {
    const __half2 s = __hadd2(x[row + i], residual[row + i]);
    const float2 y = __half22float2(s), w = __half22float2(weight[i]);
    kept[row + i] = s;
    sum += y.x * y.x + y.y * y.y;
    largest = fmaxf(largest, fmaxf(fabsf(y.x * w.x), fabsf(y.y * w.y)));
  }
  const float norm = rsqrtf(block_sum(sum, sums) / (2 * pairs) + EPS);
  const float scale = block_max(largest, maxima) * norm / 448.0f, factor = norm / scale;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < pairs; i += 256) {
    const float2 y = __half22float2(kept[row + i]), w = __half22float2(weight[i]);
    codes[row + i] = fp8_pair(y.x * w.x * factor, y.y * w.y * factor);
  }
}

// Eight numbers a thread, held; both reductions behind one barrier.
__global__ void fp8_norm_held(Pack* kept, uint2* codes, float* scales, const Pack* weight, const Pack* x,
                              const Pack* residual) {
  __shared__ float2 room[32];
  const int t = threadIdx.x, lane = t % 32, warps = blockDim.x / 32;
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + t;
  const Pack u = x[at], r = residual[at], w = weight[t];
  Pack s;
  float2 weighed[4];
  float sum = 0.0f, largest = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    s.h[j] = __hadd2(u.h[j], r.h[j]);
    const float2 y = __half22float2(s.h[j]), f = __half22float2(w.h[j]);
    weighed[j] = make_float2(y.x * f.x, y.y * f.y);
    sum += y.x * y.x + y.y * y.y;
    largest = fmaxf(largest, fmaxf(fabsf(weighed[j].x), fabsf(weighed[j].y)));
  }
  kept[at] = s;
  sum = lanes_sum(sum), largest = lanes_max(largest);
  if (lane == 0) room[t / 32] = make_float2(sum, largest);
  __syncthreads();
  const float2 part = lane < warps ? room[lane] : make_float2(0.0f, 0.0f);
  const float norm = rsqrtf(lanes_sum(part.x) / (8 * blockDim.x) + EPS);
  const float most = lanes_max(part.y), factor = 448.0f / most;
  if (t == 0) scales[blockIdx.x] = most * norm / 448.0f;
  uint2 packed;
  packed.x = fp8_pair(weighed[0].x * factor, weighed[0].y * factor) |
             uint32_t{fp8_pair(weighed[1].x * factor, weighed[1].y * factor)} << 16;
  packed.y = fp8_pair(weighed[2].x * factor, weighed[2].y * factor) |
             uint32_t{fp8_pair(weighed[3].x * factor, weighed[3].y * factor)} << 16;
  codes[at] = packed;
}

// Each head of 128, normed alone: a block for one.
__global__ void heads_block(__half* out, const __half* weight, const __half* x) {
  __shared__ float tree[128];
  const int t = threadIdx.x;
  const int64_t at = int64_t{blockIdx.x} * 128 + t;
  const float y = __half2float(x[at]);
  tree[t] = y * y;
  __syncthreads();
  for (int half = 64; half; half /= 2) {
    if (t < half) tree[t] += tree[t + half];
    __syncthreads();
  }
  out[at] = __float2half(y * rsqrtf(tree[0] / 128 + EPS) * __half2float(weight[t]));
}

// A warp for one.
__global__ void heads_warp(__half2* out, const __half2* weight, const __half2* x, int heads) {
  const int head = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (head >= heads) return;
  const int64_t at = int64_t{head} * 64 + lane;
  const float2 p = __half22float2(x[at]), q = __half22float2(x[at + 32]);
  const float scale = rsqrtf(lanes_sum(p.x * p.x + p.y * p.y + q.x * q.x + q.y * q.y) / 128 + EPS);
  const float2 v = __half22float2(weight[lane]), w = __half22float2(weight[lane + 32]);
  out[at] = __floats2half2_rn(p.x * scale * v.x, p.y * scale * v.y);
  out[at + 32] = __floats2half2_rn(q.x * scale * w.x, q.y * scale * w.y);
}

__device__ __forceinline__ Pack head_of_sixteen(const Pack& x, const Pack& weight) {
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 y = __half22float2(x.h[j]);
    sum += y.x * y.x + y.y * y.y;
  }
  const float scale = rsqrtf(lanes_sum<16>(sum) / 128 + EPS);
  Pack result;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float2 y = __half22float2(x.h[j]), w = __half22float2(weight.h[j]);
    result.h[j] = __floats2half2_rn(y.x * scale * w.x, y.y * scale * w.y);
  }
  return result;
}

// Half a warp for one, eight numbers a lane. Launched with whole warps: heads are even.
__global__ void heads_sixteen(Pack* out, const Pack* weight, const Pack* x, int packs) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= packs) return;
  out[i] = head_of_sixteen(x[i], weight[i % 16]);
}

// As many blocks as stay, each with its weights at hand and the next head on the way.
__global__ void __launch_bounds__(256) heads_loop(Pack* out, const Pack* weight, const Pack* x, int packs) {
  const Pack w = weight[threadIdx.x % 16];
  const int step = gridDim.x * 256;
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= packs) return;
  Pack now = x[i];
  for (; i < packs; i += step) {
    const Pack next = i + step < packs ? x[i + step] : now;
    out[i] = head_of_sixteen(now, w);
    now = next;
  }
}

}  // namespace

LAUNCHER(gated_norm_tree) {
  const __half *w = (const __half*)in, *x = w + b;
  gated_tree<<<a, 256, 0, stream>>>((__half*)out, w, x, x + a * b, b);
  return cudaGetLastError();
}
LAUNCHER(gated_norm_shared) {
  const __half2 *w = (const __half2*)in, *x = w + b / 2;
  gated_shared<<<a, 256, 4 * b, stream>>>((__half2*)out, w, x, x + a * b / 2, b / 2);
  return cudaGetLastError();
}
LAUNCHER(gated_norm_held) {
  const Pack *w = (const Pack*)in, *x = w + b / 8;
  gated_held<<<a, b / 8, 0, stream>>>((Pack*)out, w, x, x + a * b / 8);
  return cudaGetLastError();
}
LAUNCHER(gated_norm_warp) {
  const Pack *w = (const Pack*)in, *x = w + b / 8;
  gated_warp<<<ceil_div(a, 4), 128, 0, stream>>>((Pack*)out, w, x, x + a * b / 8, a, b / 8);
  return cudaGetLastError();
}
LAUNCHER(fp8_norm_in_passes) {
  const __half *w = (const __half*)in, *x = w + b;
  uint8_t* codes = (uint8_t*)out + 2 * a * b;
  fp8_norm_passes<<<a, 256, 0, stream>>>((__half*)out, codes, (float*)(codes + a * b), w, x, x + a * b, b);
  return cudaGetLastError();
}
LAUNCHER(fp8_norm_by_pairs) {
  const __half2 *w = (const __half2*)in, *x = w + b / 2;
  uint8_t* codes = (uint8_t*)out + 2 * a * b;
  fp8_norm_pairs<<<a, 256, 0, stream>>>((__half2*)out, (uint16_t*)codes, (float*)(codes + a * b), w, x, x + a * b / 2, b / 2);
  return cudaGetLastError();
}
LAUNCHER(fp8_norm_in_registers) {
  const Pack *w = (const Pack*)in, *x = w + b / 8;
  uint8_t* codes = (uint8_t*)out + 2 * a * b;
  fp8_norm_held<<<a, b / 8, 0, stream>>>((Pack*)out, (uint2*)codes, (float*)(codes + a * b), w, x, x + a * b / 8);
  return cudaGetLastError();
}
LAUNCHER(head_norm_block) {
  heads_block<<<a * b, 128, 0, stream>>>((__half*)out, (const __half*)in, (const __half*)in + 128);
  return cudaGetLastError();
}
LAUNCHER(head_norm_warp) {
  heads_warp<<<ceil_div(a * b, 8), 256, 0, stream>>>((__half2*)out, (const __half2*)in, (const __half2*)in + 64, a * b);
  return cudaGetLastError();
}
LAUNCHER(head_norm_sixteen) {
  heads_sixteen<<<ceil_div(a * b, 16), 256, 0, stream>>>((Pack*)out, (const Pack*)in, (const Pack*)in + 16, a * b * 16);
  return cudaGetLastError();
}
LAUNCHER(head_norm_loop) {
  heads_loop<<<528, 256, 0, stream>>>((Pack*)out, (const Pack*)in, (const Pack*)in + 16, a * b * 16);
  return cudaGetLastError();
}
