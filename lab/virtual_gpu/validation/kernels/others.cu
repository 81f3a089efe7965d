// Products of int8, Kepler's equation, decision trees, prices of options, nearest centres.
#include <mma.h>

#include "common.cuh"

namespace {

constexpr int SMS = 132;

// ---- int8: x [a, 256] times the turned w [b, 256]; out [a, b] int32 ----

constexpr int WORDS = 64;  // of a row

__global__ void __launch_bounds__(256) int8_each(int* out, const int* x, const int* w, int columns) {
  const int column = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
  int sum = 0;
  for (int k = 0; k < WORDS; ++k) sum = __dp4a(x[row * WORDS + k], w[column * WORDS + k], sum);
  out[row * columns + column] = sum;
}

__global__ void __launch_bounds__(256) int8_tile(int* out, const int* x, const int* w, int columns) {
  __shared__ int of_x[16][17], of_w[16][17];
  const int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 16, top = blockIdx.y * 16;
  int sum = 0;
  for (int base = 0; base < WORDS; base += 16) {
    of_x[ty][tx] = x[(top + ty) * WORDS + base + tx];
    of_w[ty][tx] = w[(left + ty) * WORDS + base + tx];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) sum = __dp4a(of_x[ty][k], of_w[tx][k], sum);
    __syncthreads();
  }
  out[(top + ty) * columns + left + tx] = sum;
}

// 64 by 64 a block, four by four a thread.
__global__ void __launch_bounds__(256) int8_block(int* out, const int4* x, const int4* w, int columns) {
  __shared__ int4 of_x[16][17], of_w[16][17];
  const int t = threadIdx.x, tx = t % 16, ty = t / 16, left = blockIdx.x * 64, top = blockIdx.y * 64;
  int sums[4][4] = {};
  for (int base = 0; base < WORDS / 4; base += 4) {
    const int row = t / 4, part = t % 4;
    const int4 p = x[(top + row) * (WORDS / 4) + base + part], q = w[(left + row) * (WORDS / 4) + base + part];
    int *px = reinterpret_cast<int*>(of_x), *pw = reinterpret_cast<int*>(of_w);
    px[(4 * part) * 68 + row] = p.x, px[(4 * part + 1) * 68 + row] = p.y;
    px[(4 * part + 2) * 68 + row] = p.z, px[(4 * part + 3) * 68 + row] = p.w;
    pw[(4 * part) * 68 + row] = q.x, pw[(4 * part + 1) * 68 + row] = q.y;
    pw[(4 * part + 2) * 68 + row] = q.z, pw[(4 * part + 3) * 68 + row] = q.w;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 16; ++k) {
      const int4 r = of_x[k][ty], c = of_w[k][tx];
      const int rows[4] = {r.x, r.y, r.z, r.w}, cols[4] = {c.x, c.y, c.z, c.w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = __dp4a(rows[i], cols[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    *reinterpret_cast<int4*>(out + (top + 4 * ty + i) * columns + left + 4 * tx) =
        make_int4(sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
}

// Tensor cores, 32 by 32 a warp, straight from global memory.
__global__ void __launch_bounds__(128) int8_tensor(int* out, const signed char* x, const signed char* w, int columns) {
  using namespace nvcuda::wmma;
  const int warp = threadIdx.x / 32, top = blockIdx.y * 64 + warp / 2 * 32, left = blockIdx.x * 64 + warp % 2 * 32;
  fragment<accumulator, 16, 16, 16, int> sums[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) fill_fragment(sums[i / 2][i % 2], 0);
  for (int k = 0; k < 4 * WORDS; k += 16) {
    fragment<matrix_a, 16, 16, 16, signed char, row_major> p[2];
    fragment<matrix_b, 16, 16, 16, signed char, col_major> q[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      load_matrix_sync(p[i], x + (top + 16 * i) * 4 * WORDS + k, 4 * WORDS);
      load_matrix_sync(q[i], w + (left + 16 * i) * 4 * WORDS + k, 4 * WORDS);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) mma_sync(sums[i / 2][i % 2], p[i / 2], q[i % 2], sums[i / 2][i % 2]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    store_matrix_sync(out + (top + i / 2 * 16) * columns + left + i % 2 * 16, sums[i / 2][i % 2], columns, mem_row_major);
}

// ---- Kepler's equation: e - s sin(e) = m; in m [a * b], twice s / 0.9 [a * b]; out e ----

__global__ void __launch_bounds__(256) kepler_newton(float* out, const float* m, const float* s, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float anomaly = m[i], by = 0.45f * s[i];
  float e = anomaly + by * sinf(anomaly);
  for (int turn = 0; turn < 30; ++turn) {
    const float step = (e - by * sinf(e) - anomaly) / (1.0f - by * cosf(e));
    e -= step;
    if (fabsf(step) < 1e-5f) break;
  }
  out[i] = e;
}

// As many steps for all.
__global__ void __launch_bounds__(256) kepler_eight_steps(float* out, const float* m, const float* s, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float anomaly = m[i], by = 0.45f * s[i];
  float e = anomaly + by * __sinf(anomaly);
#pragma unroll
  for (int turn = 0; turn < 8; ++turn) e -= __fdividef(e - by * __sinf(e) - anomaly, 1.0f - by * __cosf(e));
  out[i] = e;
}

__device__ __forceinline__ float halley(float anomaly, float by) {
  float e = anomaly + by * __sinf(anomaly);
  for (int turn = 0; turn < 20; ++turn) {
    float sine, cosine;
    __sincosf(e, &sine, &cosine);
    const float f = e - by * sine - anomaly, slope = 1.0f - by * cosine;
    const float step = __fdividef(f, slope - __fdividef(0.5f * f * by * sine, slope));
    e -= step;
    if (fabsf(step) < 1e-3f) break;
  }
  return e;
}

// Steps of third order until a lane is done.
__global__ void __launch_bounds__(256) kepler_halley_each(float* out, const float* m, const float* s, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = halley(m[i], 0.45f * s[i]);
}

__global__ void __launch_bounds__(128) kepler_halley_fours(float4* out, const float4* m, const float4* s, int vectors) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= vectors) return;
  const float4 p = m[i], q = s[i];
  out[i] = make_float4(halley(p.x, 0.45f * q.x), halley(p.y, 0.45f * q.y), halley(p.z, 0.45f * q.z), halley(p.w, 0.45f * q.w));
}

// ---- b decision trees of 1023 nodes over 32 features: in features of nodes [b, 1024] below 32, their thresholds [b, 1024],
// leaves [b, 1024], samples [a, 32] floats; a node with a tiny threshold ends the walk; out [a] sums of leaves ----

constexpr int NODES = 1023, ROOM = 1024, FEATURES = 32;
constexpr float TINY = 0x1p-13f;

__device__ __forceinline__ float walk(const int* features, const float* thresholds, const float* leaves, const float* sample) {
  int node = 0;
  while (node < NODES) {
    const float threshold = thresholds[node];
    if (threshold < TINY) return leaves[node];
    node = 2 * node + (sample[features[node]] > threshold ? 2 : 1);
  }
  return leaves[node - NODES];
}

__global__ void __launch_bounds__(128) trees_each(float* out, const int* features, const float* floats, int samples, int trees) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= samples) return;
  const float *leaves = floats + trees * ROOM, *sample = leaves + trees * ROOM + int64_t{i} * FEATURES;
  float sum = 0.0f;
  for (int t = 0; t < trees; ++t) sum += walk(features + t * ROOM, floats + t * ROOM, leaves + t * ROOM, sample);
  out[i] = sum;
}

// Tree after tree in shared memory, and so the block's samples.
__global__ void __launch_bounds__(256) trees_shared(float* out, const int* features, const float* floats, int samples, int trees) {
  __shared__ int of_features[ROOM];
  __shared__ float of_thresholds[ROOM], of_leaves[ROOM];
  __shared__ float kept[256 * (FEATURES + 1)];
  const float *leaves = floats + trees * ROOM, *first = leaves + trees * ROOM + int64_t{blockIdx.x} * 256 * FEATURES;
  const int within = min(256, samples - static_cast<int>(blockIdx.x) * 256), t = threadIdx.x;
  for (int i = t; i < within * FEATURES; i += 256) kept[i / FEATURES * (FEATURES + 1) + i % FEATURES] = first[i];
  float sum = 0.0f;
  for (int tree = 0; tree < trees; ++tree) {
    __syncthreads();
    for (int i = t; i < ROOM; i += 256) {
      of_features[i] = features[tree * ROOM + i];
      of_thresholds[i] = floats[tree * ROOM + i];
      of_leaves[i] = leaves[tree * ROOM + i];
    }
    __syncthreads();
    if (t < within) sum += walk(of_features, of_thresholds, of_leaves, kept + t * (FEATURES + 1));
  }
  if (t < within) out[blockIdx.x * 256 + t] = sum;
}

// Sixteen lanes a sample, each with trees of its own.
__global__ void __launch_bounds__(256) trees_lanes(float* out, const int* features, const float* floats, int samples, int trees) {
  const int i = (blockIdx.x * 256 + threadIdx.x) / 16, lane = threadIdx.x % 16;
  const float *leaves = floats + trees * ROOM, *sample = leaves + trees * ROOM + int64_t{i} * FEATURES;
  float sum = 0.0f;
  if (i < samples)
    for (int t = lane; t < trees; t += 16) sum += walk(features + t * ROOM, floats + t * ROOM, leaves + t * ROOM, sample);
  sum = lanes_sum<16>(sum);
  if (i < samples && lane == 0) out[i] = sum;
}

// ---- Black and Scholes: in s, x, t [a * b] floats each; out calls, puts [a * b] ----

constexpr float RATE = 0.02f, VOLATILITY = 0.3f;

struct Option {
  float call, put;
};

// The normal distribution by a polynomial of fifth degree (Abramowitz and Stegun 26.2.17).
__device__ __forceinline__ float normal(float d, float density, float k) {
  const float tail =
      density * k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  return d > 0.0f ? 1.0f - tail : tail;
}

__device__ __forceinline__ float normal_precise(float d) {
  return normal(d, 0.39894228f * expf(-0.5f * d * d), 1.0f / (1.0f + 0.2316419f * fabsf(d)));
}

__device__ __forceinline__ float normal_fast(float d) {
  return normal(d, 0.39894228f * __expf(-0.5f * d * d), __fdividef(1.0f, 1.0f + 0.2316419f * fabsf(d)));
}

__device__ __forceinline__ Option priced(float s, float x, float t) {
  s = 10.0f + 10.0f * s, x = 10.0f + 10.0f * x, t = 0.25f + t;
  const float root = t * rsqrtf(t), by = VOLATILITY * root;
  const float d = __fdividef(__logf(__fdividef(s, x)) + (RATE + 0.5f * VOLATILITY * VOLATILITY) * t, by);
  const float first = normal_fast(d), second = normal_fast(d - by), value = x * __expf(-RATE * t);
  return {s * first - value * second, value * (1.0f - second) - s * (1.0f - first)};
}

__global__ void __launch_bounds__(128) options_precise(float* call, float* put, const float* s_, const float* x_, const float* t_,
                                                       int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  const float s = 10.0f + 10.0f * s_[i], x = 10.0f + 10.0f * x_[i], t = 0.25f + t_[i];
  const float root = sqrtf(t), d = (logf(s / x) + (RATE + 0.5f * VOLATILITY * VOLATILITY) * t) / (VOLATILITY * root);
  const float first = normal_precise(d), second = normal_precise(d - VOLATILITY * root), value = x * expf(-RATE * t);
  call[i] = s * first - value * second;
  put[i] = value * (1.0f - second) - s * (1.0f - first);
}

__global__ void __launch_bounds__(128) options_fast(float* call, float* put, const float* s, const float* x, const float* t, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  const Option found = priced(s[i], x[i], t[i]);
  call[i] = found.call;
  put[i] = found.put;
}

__global__ void __launch_bounds__(256) options_few(float* call, float* put, const float* s, const float* x, const float* t, int n) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    const Option found = priced(s[i], x[i], t[i]);
    call[i] = found.call;
    put[i] = found.put;
  }
}

__global__ void __launch_bounds__(128) options_fours(float4* call, float4* put, const float4* s, const float4* x, const float4* t,
                                                     int vectors) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= vectors) return;
  const float4 p = s[i], q = x[i], r = t[i];
  const Option a = priced(p.x, q.x, r.x), b = priced(p.y, q.y, r.y), c = priced(p.z, q.z, r.z), d = priced(p.w, q.w, r.w);
  call[i] = make_float4(a.call, b.call, c.call, d.call);
  put[i] = make_float4(a.put, b.put, c.put, d.put);
}

// ---- the nearest of b centres to each of a points, 8 floats each: in centres, points; out [a] squared distances ----

struct Point {
  float4 low, high;
};

__device__ __forceinline__ float square(float x) { return x * x; }

__device__ __forceinline__ float apart(float4 p, float4 q) {
  return square(p.x - q.x) + square(p.y - q.y) + square(p.z - q.z) + square(p.w - q.w);
}

__device__ __forceinline__ float apart(const Point& p, const Point& q) { return apart(p.low, q.low) + apart(p.high, q.high); }

__global__ void __launch_bounds__(256) nearest_global(float* out, const Point* centres, const Point* points, int many, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const Point point = points[i];
  float least = INFINITY;
  for (int c = 0; c < many; ++c) least = fminf(least, apart(point, centres[c]));
  out[i] = least;
}

__global__ void __launch_bounds__(256) nearest_shared(float* out, const Point* centres, const Point* points, int many, int n) {
  extern __shared__ Point kept[];
  for (int c = threadIdx.x; c < many; c += 256) kept[c] = centres[c];
  __syncthreads();
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const Point point = points[i];
  float least = INFINITY;
#pragma unroll 4
  for (int c = 0; c < many; ++c) least = fminf(least, apart(point, kept[c]));
  out[i] = least;
}

// Each centre from shared memory serves four points.
__global__ void __launch_bounds__(128) nearest_fours(float* out, const Point* centres, const Point* points, int many, int n) {
  extern __shared__ Point kept[];
  for (int c = threadIdx.x; c < many; c += 128) kept[c] = centres[c];
  __syncthreads();
  const int first = blockIdx.x * 512 + threadIdx.x;
  Point four[4];
  float least[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) four[k] = points[min(first + 128 * k, n - 1)], least[k] = INFINITY;
#pragma unroll 2
  for (int c = 0; c < many; ++c) {
    const Point centre = kept[c];
#pragma unroll
    for (int k = 0; k < 4; ++k) least[k] = fminf(least[k], apart(four[k], centre));
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (first + 128 * k < n) out[first + 128 * k] = least[k];
}

template <typename T>
const T* at(const void* in, int64_t bytes = 0) {
  return reinterpret_cast<const T*>(static_cast<const char*>(in) + bytes);
}

}  // namespace

LAUNCHER(int8_product_each) {
  int8_each<<<dim3(b / 16, a / 16), dim3(16, 16), 0, stream>>>(static_cast<int*>(out), at<int>(in), at<int>(in, 256 * a), b);
  return cudaGetLastError();
}

LAUNCHER(int8_product_tile) {
  int8_tile<<<dim3(b / 16, a / 16), dim3(16, 16), 0, stream>>>(static_cast<int*>(out), at<int>(in), at<int>(in, 256 * a), b);
  return cudaGetLastError();
}

LAUNCHER(int8_product_block) {
  int8_block<<<dim3(b / 64, a / 64), 256, 0, stream>>>(static_cast<int*>(out), at<int4>(in), at<int4>(in, 256 * a), b);
  return cudaGetLastError();
}

LAUNCHER(int8_product_tensor) {
  int8_tensor<<<dim3(b / 64, a / 64), 128, 0, stream>>>(static_cast<int*>(out), at<signed char>(in), at<signed char>(in, 256 * a),
                                                        b);
  return cudaGetLastError();
}

LAUNCHER(orbit_newton) {
  kepler_newton<<<ceil_div(a * b, 256), 256, 0, stream>>>(static_cast<float*>(out), at<float>(in), at<float>(in, 4 * a * b), a * b);
  return cudaGetLastError();
}

LAUNCHER(orbit_eight_steps) {
  kepler_eight_steps<<<ceil_div(a * b, 256), 256, 0, stream>>>(static_cast<float*>(out), at<float>(in), at<float>(in, 4 * a * b),
                                                               a * b);
  return cudaGetLastError();
}

LAUNCHER(orbit_halley) {
  kepler_halley_each<<<ceil_div(a * b, 256), 256, 0, stream>>>(static_cast<float*>(out), at<float>(in), at<float>(in, 4 * a * b),
                                                               a * b);
  return cudaGetLastError();
}

LAUNCHER(orbit_halley_fours) {
  kepler_halley_fours<<<ceil_div(a * b / 4, 128), 128, 0, stream>>>(static_cast<float4*>(out), at<float4>(in),
                                                                    at<float4>(in, 4 * a * b), a * b / 4);
  return cudaGetLastError();
}

LAUNCHER(decision_trees_each) {
  trees_each<<<ceil_div(a, 128), 128, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<float>(in, 4 * ROOM * b), a, b);
  return cudaGetLastError();
}

LAUNCHER(decision_trees_shared) {
  trees_shared<<<ceil_div(a, 256), 256, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<float>(in, 4 * ROOM * b), a, b);
  return cudaGetLastError();
}

LAUNCHER(decision_trees_lanes) {
  trees_lanes<<<ceil_div(a, 16), 256, 0, stream>>>(static_cast<float*>(out), at<int>(in), at<float>(in, 4 * ROOM * b), a, b);
  return cudaGetLastError();
}

LAUNCHER(option_prices_precise) {
  const int64_t n = a * b;
  float* call = static_cast<float*>(out);
  options_precise<<<ceil_div(n, 128), 128, 0, stream>>>(call, call + n, at<float>(in), at<float>(in, 4 * n), at<float>(in, 8 * n), n);
  return cudaGetLastError();
}

LAUNCHER(option_prices_fast) {
  const int64_t n = a * b;
  float* call = static_cast<float*>(out);
  options_fast<<<ceil_div(n, 128), 128, 0, stream>>>(call, call + n, at<float>(in), at<float>(in, 4 * n), at<float>(in, 8 * n), n);
  return cudaGetLastError();
}

LAUNCHER(option_prices_few_blocks) {
  const int64_t n = a * b;
  const unsigned blocks = ceil_div(n, 256), most = SMS * 8;
  float* call = static_cast<float*>(out);
  options_few<<<blocks < most ? blocks : most, 256, 0, stream>>>(call, call + n, at<float>(in), at<float>(in, 4 * n),
                                                                 at<float>(in, 8 * n), n);
  return cudaGetLastError();
}

LAUNCHER(option_prices_fours) {
  const int64_t n = a * b;
  float4* call = static_cast<float4*>(out);
  options_fours<<<ceil_div(n / 4, 128), 128, 0, stream>>>(call, call + n / 4, at<float4>(in), at<float4>(in, 4 * n),
                                                          at<float4>(in, 8 * n), n / 4);
  return cudaGetLastError();
}

LAUNCHER(nearest_centre_global) {
  nearest_global<<<ceil_div(a, 256), 256, 0, stream>>>(static_cast<float*>(out), at<Point>(in), at<Point>(in, 32 * b), b, a);
  return cudaGetLastError();
}

LAUNCHER(nearest_centre_shared) {
  nearest_shared<<<ceil_div(a, 256), 256, 32 * b, stream>>>(static_cast<float*>(out), at<Point>(in), at<Point>(in, 32 * b), b, a);
  return cudaGetLastError();
}

LAUNCHER(nearest_centre_fours) {
  nearest_fours<<<ceil_div(a, 512), 128, 32 * b, stream>>>(static_cast<float*>(out), at<Point>(in), at<Point>(in, 32 * b), b, a);
  return cudaGetLastError();
}
