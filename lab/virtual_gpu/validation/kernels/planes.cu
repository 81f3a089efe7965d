// Pictures, volumes and layouts: bytes turned, channels last, the 27 points of a volume, medians, cosine transforms, joint
// histograms of two pictures.
#include "common.cuh"

namespace {

constexpr int SMS = 132;

// ---- bytes in [a, b] turned: out [b, a] ----

__global__ void turned_each(uint8_t* out, const uint8_t* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  out[int64_t{x} * rows + y] = in[int64_t{y} * columns + x];
}

__global__ void __launch_bounds__(256) turned_tile(uint8_t* out, const uint8_t* in, int rows, int columns) {
  __shared__ uint8_t tile[32][33];
  const int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32, top = blockIdx.y * 32;
#pragma unroll
  for (int j = 0; j < 32; j += 8) tile[ty + j][tx] = in[int64_t{top + ty + j} * columns + left + tx];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 32; j += 8) out[int64_t{left + ty + j} * rows + top + tx] = tile[tx][ty + j];
}

// Blocks of four by four bytes are turned in registers, words in shared memory: 128 by 128 bytes a block.
__global__ void __launch_bounds__(256) turned_words(unsigned* out, const unsigned* in, int row_words, int column_words) {
  __shared__ unsigned tile[128][33];
  const int tx = threadIdx.x, ty = threadIdx.y;
#pragma unroll
  for (int j = ty; j < 32; j += 8) {
    const unsigned* from = in + int64_t{blockIdx.y * 128 + 4 * j} * column_words + blockIdx.x * 32 + tx;
    const unsigned p = from[0], q = from[column_words], r = from[2 * column_words], s = from[3 * column_words];
    const unsigned pq = __byte_perm(p, q, 0x5140), rs = __byte_perm(r, s, 0x5140);
    const unsigned high_pq = __byte_perm(p, q, 0x7362), high_rs = __byte_perm(r, s, 0x7362);
    tile[4 * tx][j] = __byte_perm(pq, rs, 0x5410);
    tile[4 * tx + 1][j] = __byte_perm(pq, rs, 0x7632);
    tile[4 * tx + 2][j] = __byte_perm(high_pq, high_rs, 0x5410);
    tile[4 * tx + 3][j] = __byte_perm(high_pq, high_rs, 0x7632);
  }
  __syncthreads();
#pragma unroll 4
  for (int j = ty; j < 128; j += 8) out[int64_t{blockIdx.x * 128 + j} * row_words + blockIdx.y * 32 + tx] = tile[j][tx];
}

// ---- channels last: in [a, 64, b] halves, out [a, b, 64] ----

constexpr int CHANNELS = 64;

__global__ void __launch_bounds__(256) last_each(__half* out, const __half* in, int pixels) {
  const int i = blockIdx.x * 256 + threadIdx.x, channel = i % CHANNELS, pixel = i / CHANNELS;
  const int64_t image = int64_t{blockIdx.y} * CHANNELS * pixels;
  if (pixel < pixels) out[image + i] = in[image + int64_t{channel} * pixels + pixel];
}

__global__ void __launch_bounds__(256) last_tile(__half* out, const __half* in, int pixels) {
  __shared__ __half tile[32][34];
  const int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32, top = blockIdx.y * 32;
  const int64_t image = int64_t{blockIdx.z} * CHANNELS * pixels;
#pragma unroll
  for (int j = 0; j < 32; j += 8) tile[ty + j][tx] = in[image + int64_t{top + ty + j} * pixels + left + tx];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 32; j += 8) out[image + int64_t{left + ty + j} * CHANNELS + top + tx] = tile[tx][ty + j];
}

// A thread gathers eight channels of a pixel and stores them at once.
__global__ void __launch_bounds__(256) last_eights(Pack* out, const __half* in, int pixels) {
  const int pixel = blockIdx.x * 32 + threadIdx.x, group = threadIdx.y;
  const __half* from = in + (int64_t{blockIdx.y} * CHANNELS + 8 * group) * pixels + pixel;
  Pack pack;
#pragma unroll
  for (int i = 0; i < 4; ++i) pack.h[i] = __halves2half2(from[int64_t{2 * i} * pixels], from[int64_t{2 * i + 1} * pixels]);
  out[(int64_t{blockIdx.y} * pixels + pixel) * (CHANNELS / 8) + group] = pack;
}

// ---- the 27 points of a volume [a, b, b] of floats; the outermost ones stay ----

constexpr float CENTRE = 0.4f, FACE = 0.05f, EDGE = 0.015f, CORNER = 0.015f;

struct Plane {
  float middle, cross, corners;
};

__device__ __forceinline__ Plane plane_of(const float* p, int pitch) {
  return {p[0], p[-1] + p[1] + p[-pitch] + p[pitch], p[-pitch - 1] + p[-pitch + 1] + p[pitch - 1] + p[pitch + 1]};
}

__device__ __forceinline__ float blended(const Plane& below, const Plane& here, const Plane& above) {
  return CENTRE * here.middle + FACE * (here.cross + below.middle + above.middle) +
         EDGE * (here.corners + below.cross + above.cross) + CORNER * (below.corners + above.corners);
}

__global__ void __launch_bounds__(256) volume_each(float* out, const float* in, int planes, int side) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
  const int64_t area = int64_t{side} * side, at = z * area + y * side + x;
  if (x == 0 || y == 0 || z == 0 || x == side - 1 || y == side - 1 || z == planes - 1) {
    out[at] = in[at];
    return;
  }
  out[at] = blended(plane_of(in + at - area, side), plane_of(in + at, side), plane_of(in + at + area, side));
}

__global__ void __launch_bounds__(256) volume_shared(float* out, const float* in, int planes, int side) {
  __shared__ float tile[6][10][34];
  const int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32, top = blockIdx.y * 8, first = blockIdx.z * 4;
  const int64_t area = int64_t{side} * side;
  for (int i = ty * 32 + tx; i < 6 * 10 * 34; i += 256) {
    const int x = min(max(left + i % 34 - 1, 0), side - 1), y = min(max(top + i / 34 % 10 - 1, 0), side - 1);
    const int z = min(max(first + i / 340 - 1, 0), planes - 1);
    tile[i / 340][i / 34 % 10][i % 34] = in[z * area + y * side + x];
  }
  __syncthreads();
  const int x = left + tx, y = top + ty;
  const bool inner = x > 0 && y > 0 && x < side - 1 && y < side - 1;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int z = first + j;
    const float* here = &tile[j + 1][ty + 1][tx + 1];
    const float found = blended(plane_of(here - 340, 34), plane_of(here, 34), plane_of(here + 340, 34));
    if (z < planes) out[z * area + y * side + x] = inner && z > 0 && z < planes - 1 ? found : here[0];
  }
}

// A thread goes through 16 planes and keeps what three of them come to.
__global__ void __launch_bounds__(256) volume_march(float* out, const float* in, int planes, int side) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, first = blockIdx.z * 16;
  const int64_t area = int64_t{side} * side, column = y * side + x;
  const int last = min(first + 16, planes);
  if (x == 0 || y == 0 || x == side - 1 || y == side - 1) {
    for (int z = first; z < last; ++z) out[z * area + column] = in[z * area + column];
    return;
  }
  Plane below = plane_of(in + max(first - 1, 0) * area + column, side), here = plane_of(in + first * area + column, side);
  for (int z = first; z < last; ++z) {
    const Plane above = plane_of(in + min(z + 1, planes - 1) * area + column, side);
    out[z * area + column] = z == 0 || z == planes - 1 ? here.middle : blended(below, here, above);
    below = here;
    here = above;
  }
}

// ---- the median of nine of a picture [a, b] of floats; beyond the frame its nearest point counts ----

__device__ __forceinline__ void order(float& p, float& q) {
  const float less = fminf(p, q);
  q = fmaxf(p, q);
  p = less;
}

// Nineteen exchanges (Paeth).
__device__ __forceinline__ float median(float v[9]) {
  order(v[1], v[2]), order(v[4], v[5]), order(v[7], v[8]);
  order(v[0], v[1]), order(v[3], v[4]), order(v[6], v[7]);
  order(v[1], v[2]), order(v[4], v[5]), order(v[7], v[8]);
  order(v[0], v[3]), order(v[5], v[8]), order(v[4], v[7]);
  order(v[3], v[6]), order(v[1], v[4]), order(v[2], v[5]);
  order(v[4], v[7]), order(v[4], v[2]), order(v[6], v[4]);
  order(v[4], v[2]);
  return v[4];
}

__device__ __forceinline__ void window_of(float v[9], const float* in, int x, int y, int rows, int columns) {
#pragma unroll
  for (int j = 0; j < 9; ++j)
    v[j] = in[min(max(y + j / 3 - 1, 0), rows - 1) * columns + min(max(x + j % 3 - 1, 0), columns - 1)];
}

__global__ void __launch_bounds__(256) median_sort(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  float v[9];
  window_of(v, in, x, y, rows, columns);
  for (int i = 1; i < 9; ++i) {
    const float value = v[i];
    int j = i;
    for (; j > 0 && v[j - 1] > value; --j) v[j] = v[j - 1];
    v[j] = value;
  }
  out[y * columns + x] = v[4];
}

__global__ void __launch_bounds__(256) median_network(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  float v[9];
  window_of(v, in, x, y, rows, columns);
  out[y * columns + x] = median(v);
}

__global__ void __launch_bounds__(256) median_shared(float* out, const float* in, int rows, int columns) {
  __shared__ float tile[18][34];
  const int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32, top = blockIdx.y * 16;
  for (int i = ty * 32 + tx; i < 18 * 34; i += 256)
    tile[i / 34][i % 34] = in[min(max(top + i / 34 - 1, 0), rows - 1) * columns + min(max(left + i % 34 - 1, 0), columns - 1)];
  __syncthreads();
#pragma unroll
  for (int k = ty; k < 16; k += 8) {
    float v[9];
#pragma unroll
    for (int j = 0; j < 9; ++j) v[j] = tile[k + j / 3][tx + j % 3];
    out[(top + k) * columns + left + tx] = median(v);
  }
}

// ---- cosine transforms of blocks of 8 by 8 of a picture [a, b] of floats ----

// cos((2 x + 1) u pi / 16) / 2 of u, x; of u = 0 a share of 1 / sqrt(8).
__constant__ float COSINES[64] = {
    0.35355339f, 0.35355339f,  0.35355339f,  0.35355339f,  0.35355339f,  0.35355339f,  0.35355339f,  0.35355339f,
    0.49039264f, 0.41573481f,  0.27778512f,  0.09754516f,  -0.09754516f, -0.27778512f, -0.41573481f, -0.49039264f,
    0.46193977f, 0.19134172f,  -0.19134172f, -0.46193977f, -0.46193977f, -0.19134172f, 0.19134172f,  0.46193977f,
    0.41573481f, -0.09754516f, -0.49039264f, -0.27778512f, 0.27778512f,  0.49039264f,  0.09754516f,  -0.41573481f,
    0.35355339f, -0.35355339f, -0.35355339f, 0.35355339f,  0.35355339f,  -0.35355339f, -0.35355339f, 0.35355339f,
    0.27778512f, -0.49039264f, 0.09754516f,  0.41573481f,  -0.41573481f, -0.09754516f, 0.49039264f,  -0.27778512f,
    0.19134172f, -0.46193977f, 0.46193977f,  -0.19134172f, -0.19134172f, 0.46193977f,  -0.46193977f, 0.19134172f,
    0.09754516f, -0.27778512f, 0.41573481f,  -0.49039264f, 0.49039264f,  -0.41573481f, 0.27778512f,  -0.09754516f};

// A thread a coefficient, by the double sum; the picture's rows come from L1.
__global__ void __launch_bounds__(256) dct_each(float* out, const float* in, int columns) {
  __shared__ float cosines[64];
  const int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 32 + tx / 8 * 8, top = blockIdx.y * 8;
  if (ty < 2) cosines[ty * 32 + tx] = COSINES[ty * 32 + tx];
  __syncthreads();
  float sum = 0.0f;
  for (int y = 0; y < 8; ++y)
    for (int x = 0; x < 8; ++x) sum += in[(top + y) * columns + left + x] * cosines[8 * ty + y] * cosines[8 * (tx % 8) + x];
  out[(top + ty) * columns + left + tx % 8] = sum;
}

// Rows, then columns, both from shared memory.
__global__ void __launch_bounds__(256) dct_shared(float* out, const float* in, int columns) {
  __shared__ float cosines[8][9], tile[8][33], half[8][33];
  const int tx = threadIdx.x, ty = threadIdx.y, at = (blockIdx.y * 8 + ty) * columns + blockIdx.x * 32 + tx;
  if (ty < 2) cosines[ty * 4 + tx / 8][tx % 8] = COSINES[ty * 32 + tx];
  tile[ty][tx] = in[at];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int x = 0; x < 8; ++x) sum += tile[ty][tx / 8 * 8 + x] * cosines[tx % 8][x];
  half[ty][tx] = sum;
  __syncthreads();
  sum = 0.0f;
#pragma unroll
  for (int y = 0; y < 8; ++y) sum += half[y][tx] * cosines[ty][y];
  out[at] = sum;
}

__device__ __forceinline__ void dct_of_eight(float v[8]) {
  const float p0 = v[0] + v[7], p1 = v[1] + v[6], p2 = v[2] + v[5], p3 = v[3] + v[4];
  const float m0 = v[0] - v[7], m1 = v[1] - v[6], m2 = v[2] - v[5], m3 = v[3] - v[4];
  v[0] = 0.35355339f * (p0 + p1 + p2 + p3);
  v[4] = 0.35355339f * (p0 - p1 - p2 + p3);
  v[2] = 0.46193977f * (p0 - p3) + 0.19134172f * (p1 - p2);
  v[6] = 0.19134172f * (p0 - p3) - 0.46193977f * (p1 - p2);
  v[1] = 0.49039264f * m0 + 0.41573481f * m1 + 0.27778512f * m2 + 0.09754516f * m3;
  v[3] = 0.41573481f * m0 - 0.09754516f * m1 - 0.49039264f * m2 - 0.27778512f * m3;
  v[5] = 0.27778512f * m0 - 0.49039264f * m1 + 0.09754516f * m2 + 0.41573481f * m3;
  v[7] = 0.09754516f * m0 - 0.27778512f * m1 + 0.41573481f * m2 - 0.49039264f * m3;
}

// A thread has eight numbers of a block in registers: first a column of it, then a row. 128 columns and 8 rows a block.
__global__ void __launch_bounds__(128) dct_registers(float* out, const float* in, int columns) {
  __shared__ float tile[8][129];
  const int t = threadIdx.x, left = blockIdx.x * 128, top = blockIdx.y * 8;
  float v[8];
#pragma unroll
  for (int y = 0; y < 8; ++y) v[y] = in[(top + y) * columns + left + t];
  dct_of_eight(v);
#pragma unroll
  for (int y = 0; y < 8; ++y) tile[y][t] = v[y];
  __syncthreads();
  const int row = t % 8, start = t / 8 * 8;
#pragma unroll
  for (int x = 0; x < 8; ++x) v[x] = tile[row][start + x];
  dct_of_eight(v);
#pragma unroll
  for (int x = 0; x < 8; ++x) tile[row][start + x] = v[x];
  __syncthreads();
#pragma unroll
  for (int y = 0; y < 8; ++y) out[(top + y) * columns + left + t] = tile[y][t];
}

// ---- joint histogram of two pictures [a * b] of bytes: 64 by 64 bins; out [64, 64] counts ----

constexpr int BINS = 64 * 64;

__device__ __forceinline__ int joint_bin(unsigned x, unsigned y) { return x / 4 * 64 + y / 4; }

__global__ void joint_clear(unsigned* out) { out[blockIdx.x * 256 + threadIdx.x] = 0; }

__global__ void __launch_bounds__(256) joint_global(unsigned* out, const uint8_t* x, const uint8_t* y, int n) {
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(out + joint_bin(x[i], y[i]), 1u);
}

__global__ void __launch_bounds__(256) joint_shared(unsigned* out, const uint8_t* x, const uint8_t* y, int n) {
  __shared__ unsigned bins[BINS];
  for (int i = threadIdx.x; i < BINS; i += 256) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) atomicAdd(bins + joint_bin(x[i], y[i]), 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += 256)
    if (bins[i]) atomicAdd(out + i, bins[i]);
}

// Sixteen bytes of each picture at once.
__global__ void __launch_bounds__(1024) joint_sixteens(unsigned* out, const uint4* x, const uint4* y, int vectors) {
  __shared__ unsigned bins[BINS];
  for (int i = threadIdx.x; i < BINS; i += 1024) bins[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 1024 + threadIdx.x; i < vectors; i += gridDim.x * 1024) {
    const uint4 p = x[i], q = y[i];
    const unsigned of_x[4] = {p.x, p.y, p.z, p.w}, of_y[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int k = 0; k < 16; ++k)
      atomicAdd(bins + joint_bin(of_x[k / 4] >> k % 4 * 8 & 255, of_y[k / 4] >> k % 4 * 8 & 255), 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < BINS; i += 1024)
    if (bins[i]) atomicAdd(out + i, bins[i]);
}

unsigned at_most(unsigned blocks, unsigned most) { return blocks < most ? blocks : most; }

}  // namespace

LAUNCHER(bytes_turned_each) {
  turned_each<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>(static_cast<uint8_t*>(out), static_cast<const uint8_t*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(bytes_turned_tile) {
  turned_tile<<<dim3(b / 32, a / 32), dim3(32, 8), 0, stream>>>(static_cast<uint8_t*>(out), static_cast<const uint8_t*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(bytes_turned_words) {
  turned_words<<<dim3(b / 128, a / 128), dim3(32, 8), 0, stream>>>(static_cast<unsigned*>(out), static_cast<const unsigned*>(in),
                                                                   a / 4, b / 4);
  return cudaGetLastError();
}

LAUNCHER(channels_last_each) {
  last_each<<<dim3(b * CHANNELS / 256, a), 256, 0, stream>>>(static_cast<__half*>(out), static_cast<const __half*>(in), b);
  return cudaGetLastError();
}

LAUNCHER(channels_last_tile) {
  last_tile<<<dim3(b / 32, CHANNELS / 32, a), dim3(32, 8), 0, stream>>>(static_cast<__half*>(out), static_cast<const __half*>(in),
                                                                        b);
  return cudaGetLastError();
}

LAUNCHER(channels_last_eights) {
  last_eights<<<dim3(b / 32, a), dim3(32, 8), 0, stream>>>(static_cast<Pack*>(out), static_cast<const __half*>(in), b);
  return cudaGetLastError();
}

LAUNCHER(volume_points_each) {
  volume_each<<<dim3(b / 32, b / 8, a), dim3(32, 8), 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(volume_points_shared) {
  volume_shared<<<dim3(b / 32, b / 8, ceil_div(a, 4)), dim3(32, 8), 0, stream>>>(static_cast<float*>(out),
                                                                                 static_cast<const float*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(volume_points_march) {
  volume_march<<<dim3(b / 32, b / 8, ceil_div(a, 16)), dim3(32, 8), 0, stream>>>(static_cast<float*>(out),
                                                                                 static_cast<const float*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(median_by_sorting) {
  median_sort<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(median_by_network) {
  median_network<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(median_from_shared) {
  median_shared<<<dim3(b / 32, a / 16), dim3(32, 8), 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), a, b);
  return cudaGetLastError();
}

LAUNCHER(cosine_blocks_each) {
  dct_each<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), b);
  return cudaGetLastError();
}

LAUNCHER(cosine_blocks_shared) {
  dct_shared<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), b);
  return cudaGetLastError();
}

LAUNCHER(cosine_blocks_registers) {
  dct_registers<<<dim3(b / 128, a / 8), 128, 0, stream>>>(static_cast<float*>(out), static_cast<const float*>(in), b);
  return cudaGetLastError();
}

LAUNCHER(joint_counts_global) {
  const uint8_t* x = static_cast<const uint8_t*>(in);
  joint_clear<<<BINS / 256, 256, 0, stream>>>(static_cast<unsigned*>(out));
  joint_global<<<at_most(ceil_div(a * b, 256), SMS * 16), 256, 0, stream>>>(static_cast<unsigned*>(out), x, x + a * b, a * b);
  return cudaGetLastError();
}

LAUNCHER(joint_counts_shared) {
  const uint8_t* x = static_cast<const uint8_t*>(in);
  joint_clear<<<BINS / 256, 256, 0, stream>>>(static_cast<unsigned*>(out));
  joint_shared<<<at_most(ceil_div(a * b, 256), SMS * 8), 256, 0, stream>>>(static_cast<unsigned*>(out), x, x + a * b, a * b);
  return cudaGetLastError();
}

LAUNCHER(joint_counts_sixteens) {
  const uint4* x = static_cast<const uint4*>(in);
  joint_clear<<<BINS / 256, 256, 0, stream>>>(static_cast<unsigned*>(out));
  joint_sixteens<<<at_most(ceil_div(a * b / 16, 1024), SMS * 2), 1024, 0, stream>>>(static_cast<unsigned*>(out), x, x + a * b / 16,
                                                                                    a * b / 16);
  return cudaGetLastError();
}
