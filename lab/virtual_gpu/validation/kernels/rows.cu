// Along rows and columns: errors, variances, cosines, softmax down columns, the gradient of a log softmax.
#include "common.cuh"

namespace {

constexpr int SMS = 132;

__device__ __forceinline__ float dot(float4 p, float4 q) { return p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w; }

__device__ __forceinline__ float total(float4 p) { return p.x + p.y + p.z + p.w; }

// ---- the mean of squared differences of x and y, [a * b] floats each; out: that one float, and room behind it ----

constexpr int PARTIALS = 1024;  // where they start in out, in floats

__device__ __forceinline__ float squared(float x, float y) { return (x - y) * (x - y); }

__device__ __forceinline__ float squared(float4 x, float4 y) {
  return squared(x.x, y.x) + squared(x.y, y.y) + squared(x.z, y.z) + squared(x.w, y.w);
}

__global__ void error_clear(float* out) { out[0] = 0.0f; }

__global__ void __launch_bounds__(256) error_adds(float* out, const float* x, const float* y, int n) {
  __shared__ float room[8];
  const int i = blockIdx.x * 256 + threadIdx.x;
  const float sum = block_sum(i < n ? squared(x[i], y[i]) : 0.0f, room);
  if (threadIdx.x == 0) atomicAdd(out, sum / n);
}

__device__ __forceinline__ float error_of_block(const float4* x, const float4* y, int vectors, float* room) {
  float sum = 0.0f;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < vectors; i += gridDim.x * 256) sum += squared(x[i], y[i]);
  return block_sum(sum, room);
}

__global__ void __launch_bounds__(256) error_partials(float* out, const float4* x, const float4* y, int vectors) {
  __shared__ float room[8];
  const float sum = error_of_block(x, y, vectors, room);
  if (threadIdx.x == 0) out[PARTIALS + blockIdx.x] = sum;
}

__global__ void __launch_bounds__(512) error_finish(float* out, int blocks, float by) {
  __shared__ float room[16];
  float sum = 0.0f;
  for (int i = threadIdx.x; i < blocks; i += 512) sum += out[PARTIALS + i];
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) out[0] = sum * by;
}

// The block that is last to draw a ticket adds up what all have left.
__global__ void __launch_bounds__(256) error_tickets(float* out, unsigned* tickets, const float4* x, const float4* y, int vectors,
                                                     float by) {
  __shared__ float room[8];
  __shared__ bool last;
  float sum = error_of_block(x, y, vectors, room);
  if (threadIdx.x == 0) {
    out[PARTIALS + blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(tickets, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  sum = 0.0f;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += 256) sum += __ldcg(out + PARTIALS + i);
  sum = block_sum(sum, room);
  if (threadIdx.x == 0) {
    out[0] = sum * by;
    *tickets = 0;
  }
}

// ---- mean and variance of each of a rows of b halves; out: [a] means, [a] variances, floats ----

__global__ void __launch_bounds__(256) variance_passes(float* out, const __half* in, int rows, int columns) {
  __shared__ float room[2][8];
  const __half* row = in + int64_t{blockIdx.x} * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 256) sum += __half2float(row[i]);
  const float mean = block_sum(sum, room[0]) / columns;
  float squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 256) squares += squared(__half2float(row[i]), mean);
  squares = block_sum(squares, room[1]);
  if (threadIdx.x) return;
  out[blockIdx.x] = mean;
  out[rows + blockIdx.x] = squares / columns;
}

struct Moments {
  float count, mean, squares;
};

__device__ __forceinline__ void take(Moments& m, float x) {
  m.count += 1.0f;
  const float delta = x - m.mean;
  m.mean += delta / m.count;
  m.squares += delta * (x - m.mean);
}

__device__ __forceinline__ void take(Moments& m, const Moments& other) {
  const float count = m.count + other.count, share = count > 0.0f ? other.count / count : 0.0f, delta = other.mean - m.mean;
  m.mean += delta * share;
  m.squares += other.squares + delta * delta * m.count * share;
  m.count = count;
}

__device__ __forceinline__ Moments lanes_moments(Moments m) {
#pragma unroll
  for (int step = 16; step; step /= 2) {
    const Moments other = {__shfl_xor_sync(ALL, m.count, step), __shfl_xor_sync(ALL, m.mean, step),
                           __shfl_xor_sync(ALL, m.squares, step)};
    take(m, other);
  }
  return m;
}

// Welford's way, one value after another.
__global__ void __launch_bounds__(128) variance_welford(float* out, const __half* in, int rows, int columns) {
  __shared__ Moments room[4];
  const __half* row = in + int64_t{blockIdx.x} * columns;
  Moments m = {};
  for (int i = threadIdx.x; i < columns; i += 128) take(m, __half2float(row[i]));
  m = lanes_moments(m);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = m;
  __syncthreads();
  if (threadIdx.x) return;
  for (int w = 1; w < 4; ++w) take(m, room[w]);
  out[blockIdx.x] = m.mean;
  out[rows + blockIdx.x] = m.squares / columns;
}

// A warp a row: moments of eight at once, merged with those so far.
__global__ void __launch_bounds__(256) variance_warps(float* out, const Pack* in, int rows, int vectors) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32;
  if (row >= rows) return;
  Moments m = {};
  for (int i = threadIdx.x % 32; i < vectors; i += 32) {
    const Pack pack = in[int64_t{row} * vectors + i];
    float2 x[4];
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) x[k] = __half22float2(pack.h[k]), sum += x[k].x + x[k].y;
    const float mean = sum / 8.0f;
#pragma unroll
    for (int k = 0; k < 4; ++k) squares += squared(x[k].x, mean) + squared(x[k].y, mean);
    take(m, Moments{8.0f, mean, squares});
  }
  m = lanes_moments(m);
  if (threadIdx.x % 32) return;
  out[row] = m.mean;
  out[rows + row] = m.squares / (8 * vectors);
}

// The row in registers, up to four vectors a thread, and two reductions.
__global__ void __launch_bounds__(128) variance_held(float* out, const Pack* in, int rows, int vectors) {
  __shared__ float room[2][4];
  Pack kept[4];
  float sum = 0.0f, squares = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = threadIdx.x + 128 * k;
    if (i >= vectors) break;
    kept[k] = in[int64_t{blockIdx.x} * vectors + i];
#pragma unroll
    for (int j = 0; j < 4; ++j) sum += __low2float(kept[k].h[j]) + __high2float(kept[k].h[j]);
  }
  const float mean = block_sum(sum, room[0]) / (8 * vectors);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (static_cast<int>(threadIdx.x) + 128 * k >= vectors) break;
#pragma unroll
    for (int j = 0; j < 4; ++j) squares += squared(__low2float(kept[k].h[j]), mean) + squared(__high2float(kept[k].h[j]), mean);
  }
  squares = block_sum(squares, room[1]);
  if (threadIdx.x) return;
  out[blockIdx.x] = mean;
  out[rows + blockIdx.x] = squares / (8 * vectors);
}

// ---- cosines of rows of x and y, [a, b] floats each; out [a] floats ----

__device__ __forceinline__ float cosine(float xy, float xx, float yy) { return xy * rsqrtf(xx * yy + 1e-12f); }

__global__ void __launch_bounds__(128) cosine_tree(float* out, const float* x, const float* y, int columns) {
  __shared__ float sums[3][128];
  const int t = threadIdx.x;
  const int64_t start = int64_t{blockIdx.x} * columns;
  float xy = 0.0f, xx = 0.0f, yy = 0.0f;
  for (int i = t; i < columns; i += 128) {
    const float p = x[start + i], q = y[start + i];
    xy += p * q, xx += p * p, yy += q * q;
  }
  sums[0][t] = xy, sums[1][t] = xx, sums[2][t] = yy;
  __syncthreads();
  for (int step = 64; step; step /= 2) {
    if (t < step)
      for (int k = 0; k < 3; ++k) sums[k][t] += sums[k][t + step];
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = cosine(sums[0][0], sums[1][0], sums[2][0]);
}

// WIDTH lanes a row.
template <int WIDTH>
__global__ void __launch_bounds__(256) cosine_lanes(float* out, const float4* x, const float4* y, int rows, int vectors) {
  const int row = (blockIdx.x * 256 + threadIdx.x) / WIDTH, lane = threadIdx.x % WIDTH;
  if (row >= rows) return;
  float xy = 0.0f, xx = 0.0f, yy = 0.0f;
#pragma unroll 2
  for (int i = lane; i < vectors; i += WIDTH) {
    const float4 p = x[int64_t{row} * vectors + i], q = y[int64_t{row} * vectors + i];
    xy += dot(p, q), xx += dot(p, p), yy += dot(q, q);
  }
  xy = lanes_sum<WIDTH>(xy), xx = lanes_sum<WIDTH>(xx), yy = lanes_sum<WIDTH>(yy);
  if (lane == 0) out[row] = cosine(xy, xx, yy);
}

// ---- softmax down the columns of [a, b] floats ----

__global__ void __launch_bounds__(128) columns_passes(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x;
  if (x >= columns) return;
  float most = -INFINITY, sum = 0.0f;
  for (int y = 0; y < rows; ++y) most = fmaxf(most, in[y * columns + x]);
  for (int y = 0; y < rows; ++y) sum += __expf(in[y * columns + x] - most);
  for (int y = 0; y < rows; ++y) out[y * columns + x] = __expf(in[y * columns + x] - most) / sum;
}

__global__ void __launch_bounds__(128) columns_online(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x;
  if (x >= columns) return;
  float most = -INFINITY, sum = 0.0f;
  for (int y = 0; y < rows; ++y) {
    const float value = in[y * columns + x], larger = fmaxf(most, value);
    sum = sum * __expf(most - larger) + __expf(value - larger);
    most = larger;
  }
  const float by = 1.0f / sum;
  for (int y = 0; y < rows; ++y) out[y * columns + x] = __expf(in[y * columns + x] - most) * by;
}

// 32 columns a block, 16 warps share the rows.
__global__ void __launch_bounds__(512) columns_shared(float* out, const float* in, int rows, int columns) {
  __shared__ float most_of[16][32], sum_of[16][32];
  const int tx = threadIdx.x, ty = threadIdx.y, x = blockIdx.x * 32 + tx;
  float most = -INFINITY, sum = 0.0f;
  for (int y = ty; y < rows; y += 16) {
    const float value = in[y * columns + x];
    if (value > most) sum *= __expf(most - value), most = value;
    sum += __expf(value - most);
  }
  most_of[ty][tx] = most;
  sum_of[ty][tx] = sum;
  __syncthreads();
  float all = -INFINITY, denominator = 0.0f;
#pragma unroll
  for (int w = 0; w < 16; ++w) all = fmaxf(all, most_of[w][tx]);
#pragma unroll
  for (int w = 0; w < 16; ++w) denominator += sum_of[w][tx] * __expf(most_of[w][tx] - all);
  const float by = 1.0f / denominator;
  for (int y = ty; y < rows; y += 16) out[y * columns + x] = __expf(in[y * columns + x] - all) * by;
}

// ---- gradient of a log softmax: in y, g [a, b] floats each; out g - exp(y) * (sum of g in the row) ----

__global__ void __launch_bounds__(256) gradient_block(float* out, const float* y, const float* g, int columns) {
  __shared__ float room[8];
  const int64_t start = int64_t{blockIdx.x} * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 256) sum += g[start + i];
  sum = block_sum(sum, room);
  for (int i = threadIdx.x; i < columns; i += 256) out[start + i] = g[start + i] - expf(y[start + i]) * sum;
}

__device__ __forceinline__ float4 gradient(float4 g, float4 y, float sum) {
  return make_float4(g.x - __expf(y.x) * sum, g.y - __expf(y.y) * sum, g.z - __expf(y.z) * sum, g.w - __expf(y.w) * sum);
}

__global__ void __launch_bounds__(512) gradient_fours(float4* out, const float4* y, const float4* g, int vectors) {
  __shared__ float room[16];
  const int64_t start = int64_t{blockIdx.x} * vectors;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < vectors; i += 512) sum += total(g[start + i]);
  sum = block_sum(sum, room);
  for (int i = threadIdx.x; i < vectors; i += 512) out[start + i] = gradient(g[start + i], y[start + i], sum);
}

// Both rows are loaded before the sum is known: up to four vectors of each a thread.
__global__ void __launch_bounds__(256) gradient_held(float4* out, const float4* y, const float4* g, int vectors) {
  __shared__ float room[8];
  const int64_t start = int64_t{blockIdx.x} * vectors;
  float4 of_y[4], of_g[4];
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = threadIdx.x + 256 * k;
    if (i < vectors) of_g[k] = g[start + i], of_y[k] = y[start + i], sum += total(of_g[k]);
  }
  sum = block_sum(sum, room);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = threadIdx.x + 256 * k;
    if (i < vectors) out[start + i] = gradient(of_g[k], of_y[k], sum);
  }
}

template <typename T>
const T* at(const void* in, int64_t bytes = 0) {
  return reinterpret_cast<const T*>(static_cast<const char*>(in) + bytes);
}

unsigned at_most(unsigned blocks, unsigned most) { return blocks < most ? blocks : most; }

}  // namespace

LAUNCHER(squared_error_atomics) {
  const int64_t n = a * b;
  error_clear<<<1, 1, 0, stream>>>(static_cast<float*>(out));
  error_adds<<<ceil_div(n, 256), 256, 0, stream>>>(static_cast<float*>(out), at<float>(in), at<float>(in, 4 * n), n);
  return cudaGetLastError();
}

LAUNCHER(squared_error_partials) {
  const int64_t n = a * b;
  const unsigned blocks = at_most(ceil_div(n / 4, 256), SMS * 8);
  error_partials<<<blocks, 256, 0, stream>>>(static_cast<float*>(out), at<float4>(in), at<float4>(in, 4 * n), n / 4);
  error_finish<<<1, 512, 0, stream>>>(static_cast<float*>(out), blocks, 1.0f / n);
  return cudaGetLastError();
}

LAUNCHER(squared_error_tickets) {
  const int64_t n = a * b;
  const unsigned blocks = at_most(ceil_div(n / 4, 256), SMS * 8);
  error_tickets<<<blocks, 256, 0, stream>>>(static_cast<float*>(out), static_cast<unsigned*>(out) + 1, at<float4>(in),
                                            at<float4>(in, 4 * n), n / 4, 1.0f / n);
  return cudaGetLastError();
}

LAUNCHER(row_variance_passes) {
  variance_passes<<<a, 256, 0, stream>>>(static_cast<float*>(out), at<__half>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(row_variance_welford) {
  variance_welford<<<a, 128, 0, stream>>>(static_cast<float*>(out), at<__half>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(row_variance_warps) {
  variance_warps<<<ceil_div(a, 8), 256, 0, stream>>>(static_cast<float*>(out), at<Pack>(in), a, b / 8);
  return cudaGetLastError();
}

LAUNCHER(row_variance_held) {
  variance_held<<<a, 128, 0, stream>>>(static_cast<float*>(out), at<Pack>(in), a, b / 8);
  return cudaGetLastError();
}

LAUNCHER(row_cosine_tree) {
  cosine_tree<<<a, 128, 0, stream>>>(static_cast<float*>(out), at<float>(in), at<float>(in, 4 * a * b), b);
  return cudaGetLastError();
}

LAUNCHER(row_cosine_warp) {
  cosine_lanes<32><<<ceil_div(a, 8), 256, 0, stream>>>(static_cast<float*>(out), at<float4>(in), at<float4>(in, 4 * a * b), a,
                                                       b / 4);
  return cudaGetLastError();
}

LAUNCHER(row_cosine_eight) {
  cosine_lanes<8><<<ceil_div(a, 32), 256, 0, stream>>>(static_cast<float*>(out), at<float4>(in), at<float4>(in, 4 * a * b), a,
                                                       b / 4);
  return cudaGetLastError();
}

LAUNCHER(column_softmax_passes) {
  columns_passes<<<ceil_div(b, 128), 128, 0, stream>>>(static_cast<float*>(out), at<float>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(column_softmax_online) {
  columns_online<<<ceil_div(b, 128), 128, 0, stream>>>(static_cast<float*>(out), at<float>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(column_softmax_shared) {
  columns_shared<<<b / 32, dim3(32, 16), 0, stream>>>(static_cast<float*>(out), at<float>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(log_softmax_gradient_block) {
  gradient_block<<<a, 256, 0, stream>>>(static_cast<float*>(out), at<float>(in), at<float>(in, 4 * a * b), b);
  return cudaGetLastError();
}

LAUNCHER(log_softmax_gradient_fours) {
  gradient_fours<<<a, 512, 0, stream>>>(static_cast<float4*>(out), at<float4>(in), at<float4>(in, 4 * a * b), b / 4);
  return cudaGetLastError();
}

LAUNCHER(log_softmax_gradient_held) {
  gradient_held<<<a, 256, 0, stream>>>(static_cast<float4*>(out), at<float4>(in), at<float4>(in, 4 * a * b), b / 4);
  return cudaGetLastError();
}
