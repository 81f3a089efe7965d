// What ids and flags say: sums between flags, values taken along rows, dots along edges.
#include "common.cuh"

namespace {

// ---- sums since the last flag along rows of 1024: in codes [a, b] (0 is a flag: its value starts anew), values [a, b] ----

constexpr int LONG = 1024;

__global__ void __launch_bounds__(LONG) segments_doubling(float* out, const int* codes, const float* values) {
  __shared__ float sums[2][LONG];
  __shared__ int flags[2][LONG];
  const int t = threadIdx.x, at = blockIdx.x * LONG + t;
  sums[0][t] = values[at];
  flags[0][t] = codes[at] == 0;
  int from = 0;
  for (int step = 1; step < LONG; step *= 2) {
    __syncthreads();
    float sum = sums[from][t];
    int flag = flags[from][t];
    if (t >= step && !flag) sum += sums[from][t - step], flag = flags[from][t - step];
    from = 1 - from;
    sums[from][t] = sum;
    flags[from][t] = flag;
  }
  out[at] = sums[from][t];
}

// Inclusive, within the warp; `flag` becomes whether there is one at or before this lane.
__device__ __forceinline__ float lanes_segments(float sum, bool& flag) {
  const int lane = threadIdx.x % 32;
  const unsigned flags = __ballot_sync(ALL, flag) & (2u << lane) - 1u;
  const int first = flags ? 31 - __clz(flags) : 0;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float before = __shfl_up_sync(ALL, sum, step);
    if (lane - step >= first) sum += before;
  }
  flag = flags != 0;
  return sum;
}

// A warp a row, 32 values at a time.
__global__ void __launch_bounds__(128) segments_warps(float* out, const int* codes, const float* values, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float carry = 0.0f;
#pragma unroll 4
  for (int i = lane; i < LONG; i += 32) {
    const int at = row * LONG + i;
    bool flag = codes[at] == 0;
    float sum = lanes_segments(values[at], flag);
    if (!flag) sum += carry;
    carry = __shfl_sync(ALL, sum, 31);
    out[at] = sum;
  }
}

// Four values a thread, a block a row.
__global__ void __launch_bounds__(256) segments_fours(float4* out, const int4* codes, const float4* values) {
  __shared__ float sums[8];
  __shared__ bool flagged[8];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32, at = blockIdx.x * (LONG / 4) + t;
  const int4 code = codes[at];
  float4 x = values[at];
  const bool none[4] = {code.x != 0, code.x && code.y, code.x && code.y && code.z, code.x && code.y && code.z && code.w};
  if (code.y) x.y += x.x;
  if (code.z) x.z += x.y;
  if (code.w) x.w += x.z;
  bool flag = !none[3];
  const float scanned = lanes_segments(x.w, flag);
  float before = __shfl_up_sync(ALL, scanned, 1);
  const bool flag_before = __shfl_up_sync(ALL, static_cast<int>(flag), 1) && lane;
  if (lane == 0) before = 0.0f;
  if (lane == 31) sums[warp] = scanned, flagged[warp] = flag;
  __syncthreads();
  if (!flag_before) {
    for (int w = warp - 1; w >= 0; --w) {
      before += sums[w];
      if (flagged[w]) break;
    }
  }
  if (none[0]) x.x += before;
  if (none[1]) x.y += before;
  if (none[2]) x.z += before;
  if (none[3]) x.w += before;
  out[at] = x;
}

// ---- values taken along rows: in ids [a, b] below b, values [a, b]; out[y][x] = values[y][ids[y][x]] ----

__global__ void __launch_bounds__(256) taken_one(float* out, const int* ids, const float* values, int columns) {
  const int x = blockIdx.x * 256 + threadIdx.x;
  if (x >= columns) return;
  const int64_t start = int64_t{blockIdx.y} * columns;
  out[start + x] = values[start + ids[start + x]];
}

__global__ void __launch_bounds__(256) taken_four(float4* out, const int4* ids, const float* values, int vectors) {
  const int x = blockIdx.x * 256 + threadIdx.x;
  if (x >= vectors) return;
  const int64_t at = int64_t{blockIdx.y} * vectors + x;
  const float* row = values + int64_t{blockIdx.y} * vectors * 4;
  const int4 id = ids[at];
  out[at] = make_float4(row[id.x], row[id.y], row[id.z], row[id.w]);
}

// The row waits in shared memory.
__global__ void __launch_bounds__(512) taken_shared(float4* out, const int4* ids, const float4* values, int vectors) {
  extern __shared__ float4 kept[];
  const float* row = reinterpret_cast<const float*>(kept);
  const int64_t start = int64_t{blockIdx.x} * vectors;
  for (int i = threadIdx.x; i < vectors; i += 512) kept[i] = values[start + i];
  __syncthreads();
  for (int i = threadIdx.x; i < vectors; i += 512) {
    const int4 id = ids[start + i];
    out[start + i] = make_float4(row[id.x], row[id.y], row[id.z], row[id.w]);
  }
}

// ---- dots along edges: in sources, targets [8a] below a, features [a, b] halves; out [8a] floats ----

__device__ __forceinline__ float dot(const Pack& p, const Pack& q) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = __half22float2(p.h[i]), y = __half22float2(q.h[i]);
    sum += x.x * y.x + x.y * y.y;
  }
  return sum;
}

__global__ void __launch_bounds__(256) edges_thread(float* out, const int* ids, const Pack* features, int edges, int vectors) {
  const int e = blockIdx.x * 256 + threadIdx.x;
  if (e >= edges) return;
  const Pack *p = features + int64_t{ids[e]} * vectors, *q = features + int64_t{ids[edges + e]} * vectors;
  float sum = 0.0f;
  for (int i = 0; i < vectors; ++i) sum += dot(p[i], q[i]);
  out[e] = sum;
}

__global__ void __launch_bounds__(256) edges_warp(float* out, const int* ids, const __half2* features, int edges, int pairs) {
  const int e = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (e >= edges) return;
  const __half2 *p = features + int64_t{ids[e]} * pairs, *q = features + int64_t{ids[edges + e]} * pairs;
  float sum = 0.0f;
  for (int i = lane; i < pairs; i += 32) {
    const float2 x = __half22float2(p[i]), y = __half22float2(q[i]);
    sum += x.x * y.x + x.y * y.y;
  }
  sum = lanes_sum(sum);
  if (lane == 0) out[e] = sum;
}

__global__ void __launch_bounds__(128) edges_eight(float* out, const int* ids, const Pack* features, int edges, int vectors) {
  const int e = blockIdx.x * 16 + threadIdx.x / 8, lane = threadIdx.x % 8;
  if (e >= edges) return;
  const Pack *p = features + int64_t{ids[e]} * vectors, *q = features + int64_t{ids[edges + e]} * vectors;
  float sum = 0.0f;
#pragma unroll 2
  for (int i = lane; i < vectors; i += 8) sum += dot(p[i], q[i]);
  sum = lanes_sum<8>(sum);
  if (lane == 0) out[e] = sum;
}

template <typename T>
const T* at(const void* in, int64_t bytes = 0) {
  return reinterpret_cast<const T*>(static_cast<const char*>(in) + bytes);
}

}  // namespace

LAUNCHER(segment_sums_doubling) {
  segments_doubling<<<a, LONG, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<float>(in, 4 * a * b));
  return cudaGetLastError();
}

LAUNCHER(segment_sums_warps) {
  segments_warps<<<ceil_div(a, 4), 128, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<float>(in, 4 * a * b), a);
  return cudaGetLastError();
}

LAUNCHER(segment_sums_fours) {
  segments_fours<<<a, LONG / 4, 0, stream>>>(static_cast<float4*>(out), at<int4>(in), at<float4>(in, 4 * a * b));
  return cudaGetLastError();
}

LAUNCHER(taken_along_rows_each) {
  taken_one<<<dim3(ceil_div(b, 256), a), 256, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<float>(in, 4 * a * b), b);
  return cudaGetLastError();
}

LAUNCHER(taken_along_rows_fours) {
  taken_four<<<dim3(ceil_div(b / 4, 256), a), 256, 0, stream>>>(static_cast<float4*>(out), at<int4>(in),
                                                                at<float>(in, 4 * a * b), b / 4);
  return cudaGetLastError();
}

LAUNCHER(taken_along_rows_shared) {
  taken_shared<<<a, 512, 4 * b, stream>>>(static_cast<float4*>(out), at<int4>(in), at<float4>(in, 4 * a * b), b / 4);
  return cudaGetLastError();
}

LAUNCHER(edge_dots_thread) {
  edges_thread<<<ceil_div(8 * a, 256), 256, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<Pack>(in, 64 * a), 8 * a, b / 8);
  return cudaGetLastError();
}

LAUNCHER(edge_dots_warp) {
  edges_warp<<<a, 256, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<__half2>(in, 64 * a), 8 * a, b / 2);
  return cudaGetLastError();
}

LAUNCHER(edge_dots_eight) {
  edges_eight<<<ceil_div(a, 2), 128, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<Pack>(in, 64 * a), 8 * a, b / 8);
  return cudaGetLastError();
}
