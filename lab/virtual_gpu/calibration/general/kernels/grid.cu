// Kernels on two- and three-dimensional grids: transposes, stencils, convolution, matrix products.
#include "common.cuh"

namespace {

__global__ void transpose_reads_rows(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  out[int64_t{x} * rows + y] = in[int64_t{y} * columns + x];
}

__global__ void transpose_writes_rows(float* out, const float* in, int rows, int columns) {
  const int y = blockIdx.x * 32 + threadIdx.x, x = blockIdx.y * 8 + threadIdx.y;
  out[int64_t{x} * rows + y] = in[int64_t{y} * columns + x];
}

template <int kPad>
__global__ void transpose_tiles(float* out, const float* in, int rows, int columns) {
  __shared__ float tile[32][32 + kPad];
  const int x = blockIdx.x * 32, y = blockIdx.y * 32;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    tile[threadIdx.y + j][threadIdx.x] = in[int64_t{y + j + threadIdx.y} * columns + x + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    out[int64_t{x + j + threadIdx.y} * rows + y + threadIdx.x] = tile[threadIdx.x][threadIdx.y + j];
}

__device__ __forceinline__ float point(const float* in, int x, int y, int width, int height) {
  return x >= 0 && x < width && y >= 0 && y < height ? in[int64_t{y} * width + x] : 0.0f;
}

__global__ void five_points_global(float* out, const float* in, int height, int width) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x >= width || y >= height) return;
  out[int64_t{y} * width + x] =
      0.5f * in[int64_t{y} * width + x] +
      0.125f * (point(in, x - 1, y, width, height) + point(in, x + 1, y, width, height) +
                point(in, x, y - 1, width, height) + point(in, x, y + 1, width, height));
}

__global__ void five_points_shared(float* out, const float* in, int height, int width) {
  __shared__ float tile[18][34];
  const int left = blockIdx.x * 32 - 1, top = blockIdx.y * 16 - 1;
  for (int i = threadIdx.y * 32 + threadIdx.x; i < 18 * 34; i += 256)
    tile[i / 34][i % 34] = point(in, left + i % 34, top + i / 34, width, height);
  __syncthreads();
  for (int j = threadIdx.y; j < 16; j += 8) {
    const int x = threadIdx.x + 1, y = j + 1;
    out[int64_t{top + y} * width + left + x] =
        0.5f * tile[y][x] + 0.125f * (tile[y][x - 1] + tile[y][x + 1] + tile[y - 1][x] + tile[y + 1][x]);
  }
}

__global__ void moving_sum_global(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float sum = 0;
#pragma unroll
  for (int k = -8; k <= 8; ++k) {
    const int j = min(max(i + k, 0), n - 1);
    sum += in[j];
  }
  out[i] = sum;
}

__global__ void moving_sum_shared(float* out, const float* in, int n) {
  __shared__ float window[256 + 16];
  const int first = blockIdx.x * 256 - 8;
  for (int i = threadIdx.x; i < 256 + 16; i += 256) window[i] = in[min(max(first + i, 0), n - 1)];
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int k = 0; k <= 16; ++k) sum += window[threadIdx.x + k];
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Planes of 128 x 128; the first and the last are left out.
constexpr int kSide = 128, kPlane = kSide * kSide;

__device__ __forceinline__ float around(const float* in, int x, int y) {
  return in[-(x > 0)] + in[x < kSide - 1] + in[y > 0 ? -kSide : 0] + in[y < kSide - 1 ? kSide : 0];
}

__global__ void seven_points_each(float* out, const float* in) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const int64_t at = int64_t{blockIdx.z + 1} * kPlane + y * kSide + x;
  out[at] = around(in + at, x, y) + in[at - kPlane] + in[at + kPlane] - 6 * in[at];
}

__global__ void seven_points_march(float* out, const float* in, int depth, int each) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const int first = 1 + blockIdx.z * each, last = min(first + each, depth - 1);
  int64_t at = int64_t{first} * kPlane + y * kSide + x;
  float below = in[at - kPlane], here = in[at];
  for (int z = first; z < last; ++z, at += kPlane) {
    const float above = in[at + kPlane];
    out[at] = around(in + at, x, y) + below + above - 6 * here;
    below = here, here = above;
  }
}

__constant__ float weights[25] = {.01f, .02f, .03f, .02f, .01f, .02f, .05f, .08f, .05f, .02f, .03f, .08f, .16f,
                                  .08f, .03f, .02f, .05f, .08f, .05f, .02f, .01f, .02f, .03f, .02f, .01f};

__global__ void convolve_global(float* out, const float* in, int height, int width) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 5; ++j)
#pragma unroll
    for (int i = 0; i < 5; ++i) sum += weights[j * 5 + i] * point(in, x + i - 2, y + j - 2, width, height);
  out[int64_t{y} * width + x] = sum;
}

__global__ void convolve_shared(float* out, const float* in, int height, int width) {
  __shared__ float tile[12][36];
  const int left = blockIdx.x * 32 - 2, top = blockIdx.y * 8 - 2;
  for (int i = threadIdx.y * 32 + threadIdx.x; i < 12 * 36; i += 256)
    tile[i / 36][i % 36] = point(in, left + i % 36, top + i / 36, width, height);
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 5; ++j)
#pragma unroll
    for (int i = 0; i < 5; ++i) sum += weights[j * 5 + i] * tile[threadIdx.y + j][threadIdx.x + i];
  out[int64_t{top + 2 + threadIdx.y} * width + left + 2 + threadIdx.x] = sum;
}

__global__ void product_naive(float* c, const float* a, const float* b, int n) {
  const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}

__global__ void product_tiles(float* c, const float* a, const float* b, int n) {
  __shared__ float p[16][16], q[16][16];
  const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    p[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
    q[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) sum += p[threadIdx.y][i] * q[i][threadIdx.x];
    __syncthreads();
  }
  c[y * n + x] = sum;
}

// 64 x 64 results a block of 256 threads, 4 x 4 a thread.
__global__ void product_registers(float* c, const float* a, const float* b, int n) {
  __shared__ float p[16][65], q[16][64];
  const int x = blockIdx.x * 64, y = blockIdx.y * 64, column = threadIdx.x % 16, row = threadIdx.x / 16;
  float sum[4][4] = {};
  for (int k = 0; k < n; k += 16) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      p[column][row + 16 * j] = a[(y + row + 16 * j) * n + k + column];
      q[row][column + 16 * j] = b[(k + row) * n + x + column + 16 * j];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i)
#pragma unroll
      for (int u = 0; u < 4; ++u)
#pragma unroll
        for (int v = 0; v < 4; ++v) sum[u][v] += p[i][row + 16 * u] * q[i][column + 16 * v];
    __syncthreads();
  }
#pragma unroll
  for (int u = 0; u < 4; ++u)
#pragma unroll
    for (int v = 0; v < 4; ++v) c[(y + row + 16 * u) * n + x + column + 16 * v] = sum[u][v];
}

__global__ void matvec_thread(float* out, const float* m, const float* v, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = 0; i < columns; ++i) sum += m[int64_t{row} * columns + i] * v[i];
  out[row] = sum;
}

__global__ void matvec_warp(float* out, const float4* m, const float4* v, int rows, int vectors) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0;
  for (int i = lane; i < vectors; i += 32) {
    const float4 x = m[int64_t{row} * vectors + i], y = v[i];
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
  sum = warp_sum(sum);
  if (lane == 0) out[row] = sum;
}

__global__ void matvec_block(float* out, const float* m, const float* v, int columns) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += m[int64_t{blockIdx.x} * columns + i] * v[i];
  sum = sum_of_block(sum, partial);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

}  // namespace

LAUNCHER(transpose_by_reads) {
  LAUNCH(transpose_reads_rows, dim3(b / 32, a / 8), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(transpose_by_writes) {
  LAUNCH(transpose_writes_rows, dim3(a / 32, b / 8), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(transpose_by_tiles) {
  LAUNCH(transpose_tiles<0>, dim3(b / 32, a / 32), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(transpose_by_padded_tiles) {
  LAUNCH(transpose_tiles<1>, dim3(b / 32, a / 32), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(five_points_from_global) {
  LAUNCH(five_points_global, dim3(b / 32, a / 8), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(five_points_from_shared) {
  LAUNCH(five_points_shared, dim3(b / 32, a / 16), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(moving_sum_from_global) { LAUNCH(moving_sum_global, a * b / 256, 256, (float*)out, (const float*)in, a * b); }
LAUNCHER(moving_sum_from_shared) { LAUNCH(moving_sum_shared, a * b / 256, 256, (float*)out, (const float*)in, a * b); }
LAUNCHER(seven_points_one_each) {
  LAUNCH(seven_points_each, dim3(4, 16, a - 2), dim3(32, 8), (float*)out, (const float*)in);
}
LAUNCHER(seven_points_in_columns) {
  LAUNCH(seven_points_march, dim3(4, 16, cover(a - 2, 16)), dim3(32, 8), (float*)out, (const float*)in, a, 16);
}
LAUNCHER(convolve_from_global) {
  LAUNCH(convolve_global, dim3(b / 32, a / 8), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(convolve_from_shared) {
  LAUNCH(convolve_shared, dim3(b / 32, a / 8), dim3(32, 8), (float*)out, (const float*)in, a, b);
}
LAUNCHER(product_by_rows) {
  const float* m = (const float*)in;
  LAUNCH(product_naive, dim3(a / 16, a / 16), dim3(16, 16), (float*)out, m, m + a * a, a);
}
LAUNCHER(product_by_tiles) {
  const float* m = (const float*)in;
  LAUNCH(product_tiles, dim3(a / 16, a / 16), dim3(16, 16), (float*)out, m, m + a * a, a);
}
LAUNCHER(product_in_registers) {
  const float* m = (const float*)in;
  LAUNCH(product_registers, dim3(a / 64, a / 64), 256, (float*)out, m, m + a * a, a);
}
LAUNCHER(matvec_by_thread) {
  LAUNCH(matvec_thread, cover(a, 128), 128, (float*)out, (const float*)in, (const float*)in, a, b);
}
LAUNCHER(matvec_by_warp) {
  LAUNCH(matvec_warp, cover(a, 4), 128, (float*)out, (const float4*)in, (const float4*)in, a, b / 4);
}
LAUNCHER(matvec_by_block) {
  LAUNCH(matvec_block, a, 256, (float*)out, (const float*)in, (const float*)in, b);
}
