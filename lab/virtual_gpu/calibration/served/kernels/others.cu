// Kernels of other fields: waves, histograms, records, statistics, sorting, potentials, edges of pictures.
#include "common.cuh"

namespace {

// A step of the wave equation, fourth order in space; a frame of two stays as it is.
constexpr float SPEED = 0.2f;

__device__ __forceinline__ float wave_of(float before, float now, float near, float far) {
  return 2.0f * now - before + SPEED * (16.0f * near - far - 60.0f * now) / 12.0f;
}

__global__ void wave_one(float* out, const float* before, const float* now, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, at = y * columns + x;
  const float c = now[at];
  if (x < 2 || y < 2 || x >= columns - 2 || y >= rows - 2) {
    out[at] = c;
    return;
  }
  const float near = now[at - 1] + now[at + 1] + now[at - columns] + now[at + columns];
  const float far = now[at - 2] + now[at + 2] + now[at - 2 * columns] + now[at + 2 * columns];
  out[at] = wave_of(before[at], c, near, far);
}

__global__ void __launch_bounds__(256) wave_shared(float* out, const float* before, const float* now, int rows, int columns) {
  __shared__ float tile[20][36];
  const int tx = threadIdx.x % 32, ty = threadIdx.x / 32, left = blockIdx.x * 32, top = blockIdx.y * 16;
  for (int i = threadIdx.x; i < 20 * 36; i += 256) {
    const int x = min(max(left + i % 36 - 2, 0), columns - 1), y = min(max(top + i / 36 - 2, 0), rows - 1);
    tile[i / 36][i % 36] = now[y * columns + x];
  }
  __syncthreads();
#pragma unroll
  for (int j = ty; j < 16; j += 8) {
    const int x = left + tx, y = top + j, at = y * columns + x;
    const float c = tile[j + 2][tx + 2];
    const float near = tile[j + 2][tx + 1] + tile[j + 2][tx + 3] + tile[j + 1][tx + 2] + tile[j + 3][tx + 2];
    const float far = tile[j + 2][tx] + tile[j + 2][tx + 4] + tile[j][tx + 2] + tile[j + 4][tx + 2];
    const bool inner = x >= 2 && y >= 2 && x < columns - 2 && y < rows - 2;
    out[at] = inner ? wave_of(before[at], c, near, far) : c;
  }
}

// A thread walks down 16 rows with five of them in registers.
__global__ void wave_queue(float* out, const float* before, const float* now, int rows, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * 16;
  const bool within = x >= 2 && x < columns - 2;
  const int l = within ? x - 2 : x, r = within ? x + 2 : x;
  float q[5];
#pragma unroll
  for (int j = 0; j < 4; ++j) q[j] = now[max(first + j - 2, 0) * columns + x];
#pragma unroll 4
  for (int y = first; y < first + 16; ++y) {
    q[4] = now[min(y + 2, rows - 1) * columns + x];
    const float* row = now + y * columns;
    const float near = row[l + within] + row[r - within] + q[1] + q[3], far = row[l] + row[r] + q[0] + q[4];
    const bool inner = within && y >= 2 && y < rows - 2;
    out[y * columns + x] = inner ? wave_of(before[y * columns + x], q[2], near, far) : q[2];
#pragma unroll
    for (int j = 0; j < 4; ++j) q[j] = q[j + 1];
  }
}

// 64 bins for each row.
constexpr int BINS = 64;

__device__ __forceinline__ int bin_of(float x) { return min(static_cast<int>(x * 32.0f), BINS - 1); }

__global__ void bins_block(unsigned* out, const float* in, int columns) {
  __shared__ unsigned bins[BINS];
  const int t = threadIdx.x;
  if (t < BINS) bins[t] = 0;
  __syncthreads();
  for (int i = t; i < columns; i += 256) atomicAdd(bins + bin_of(in[int64_t{blockIdx.x} * columns + i]), 1u);
  __syncthreads();
  if (t < BINS) out[blockIdx.x * BINS + t] = bins[t];
}

__global__ void __launch_bounds__(256) bins_warps(unsigned* out, const float4* in, int vectors) {
  __shared__ unsigned bins[8][BINS + 1];
  const int t = threadIdx.x;
  for (int i = t; i < 8 * (BINS + 1); i += 256) bins[0][i] = 0;
  __syncthreads();
  unsigned* mine = bins[t / 32];
  for (int i = t; i < vectors; i += 256) {
    const float4 v = in[int64_t{blockIdx.x} * vectors + i];
    atomicAdd(mine + bin_of(v.x), 1u), atomicAdd(mine + bin_of(v.y), 1u);
    atomicAdd(mine + bin_of(v.z), 1u), atomicAdd(mine + bin_of(v.w), 1u);
  }
  __syncthreads();
  if (t >= BINS) return;
  unsigned sum = 0;
#pragma unroll
  for (int w = 0; w < 8; ++w) sum += bins[w][t];
  out[blockIdx.x * BINS + t] = sum;
}

// Lanes with one bin send one of them.
__global__ void __launch_bounds__(256) bins_matched(unsigned* out, const float4* in, int vectors) {
  __shared__ unsigned bins[BINS];
  const int t = threadIdx.x, lane = t % 32;
  if (t < BINS) bins[t] = 0;
  __syncthreads();
  for (int i = t; i < vectors; i += 256) {
    const float4 v = in[int64_t{blockIdx.x} * vectors + i];
    const int bin[4] = {bin_of(v.x), bin_of(v.y), bin_of(v.z), bin_of(v.w)};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned same = __match_any_sync(ALL, bin[j]);
      if (lane == __ffs(same) - 1) atomicAdd(bins + bin[j], __popc(same));
    }
  }
  __syncthreads();
  if (t < BINS) out[blockIdx.x * BINS + t] = bins[t];
}

// Records of eight numbers become eight columns.
__global__ void records_one(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
#pragma unroll
  for (int j = 0; j < 8; ++j) out[int64_t{j} * n + i] = in[int64_t{i} * 8 + j];
}

__global__ void records_four(float* out, const float4* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const float4 u = in[2 * int64_t{i}], v = in[2 * int64_t{i} + 1];
  const float of[8] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
#pragma unroll
  for (int j = 0; j < 8; ++j) out[int64_t{j} * n + i] = of[j];
}

__global__ void __launch_bounds__(256) records_staged(float* out, const float4* in, int n) {
  __shared__ float tile[8][257];
  const int t = threadIdx.x;
#pragma unroll
  for (int k = t; k < 512; k += 256) {
    const float4 v = in[int64_t{blockIdx.x} * 512 + k];
    const int record = k / 2, j = k % 2 * 4;
    tile[j][record] = v.x, tile[j + 1][record] = v.y, tile[j + 2][record] = v.z, tile[j + 3][record] = v.w;
  }
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 8; ++j) out[int64_t{j} * n + blockIdx.x * 256 + t] = tile[j][t];
}

// Sums and sums of squares of each channel: images, channels, 256 pixels.
__global__ void __launch_bounds__(256) channel_alone(float* out, const float* in, int images, int channels) {
  __shared__ float first[256], second[256];
  const int t = threadIdx.x, channel = blockIdx.x;
  float sum = 0.0f, squares = 0.0f;
  for (int image = 0; image < images; ++image) {
    const float x = in[(int64_t{image} * channels + channel) * 256 + t];
    sum += x, squares += x * x;
  }
  first[t] = sum, second[t] = squares;
  __syncthreads();
  for (int half = 128; half; half /= 2) {
    if (t < half) first[t] += first[t + half], second[t] += second[t + half];
    __syncthreads();
  }
  if (t == 0) out[channel] = first[0], out[channels + channel] = second[0];
}

__global__ void clear_sums(float* sums, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) sums[i] = 0.0f;
}

__device__ __forceinline__ float2 moments(const float4& v) {
  return make_float2(v.x + v.y + (v.z + v.w), v.x * v.x + v.y * v.y + (v.z * v.z + v.w * v.w));
}

__global__ void __launch_bounds__(256) channel_split(float* out, const float4* in, int images, int channels) {
  __shared__ float one[8], two[8];
  const int t = threadIdx.x, channel = blockIdx.x, each = images / gridDim.y, from = blockIdx.y * each;
  float sum = 0.0f, squares = 0.0f;
#pragma unroll 4
  for (int image = from + t / 64; image < from + each; image += 4) {
    const float2 m = moments(in[(int64_t{image} * channels + channel) * 64 + t % 64]);
    sum += m.x, squares += m.y;
  }
  sum = block_sum(sum, one), squares = block_sum(squares, two);
  if (t == 0) atomicAdd(out + channel, sum), atomicAdd(out + channels + channel, squares);
}

__global__ void __launch_bounds__(256) plane_sums(float2* parts, const float4* in, int planes) {
  const int plane = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (plane >= planes) return;
  const float2 m = moments(in[int64_t{plane} * 64 + lane]), n = moments(in[int64_t{plane} * 64 + 32 + lane]);
  const float sum = lanes_sum(m.x + n.x), squares = lanes_sum(m.y + n.y);
  if (lane == 0) parts[plane] = make_float2(sum, squares);
}

__global__ void join_planes(float* out, const float2* parts, int images, int channels) {
  const int channel = blockIdx.x * 64 + threadIdx.x;
  if (channel >= channels) return;
  float sum = 0.0f, squares = 0.0f;
#pragma unroll 8
  for (int image = 0; image < images; ++image) {
    const float2 m = parts[int64_t{image} * channels + channel];
    sum += m.x, squares += m.y;
  }
  out[channel] = sum, out[channels + channel] = squares;
}

// 256 keys of a row and where they stood, sorted; equal keys keep their order.
using Pair = unsigned long long;

__device__ __forceinline__ Pair pair_of(unsigned key, int place) { return Pair{key} << 32 | static_cast<unsigned>(place); }

__global__ void __launch_bounds__(128) pairs_shared(unsigned* keys, unsigned* places, const unsigned* in) {
  __shared__ Pair room[256];
  const int t = threadIdx.x;
  const int64_t row = int64_t{blockIdx.x} * 256;
  room[t] = pair_of(in[row + t], t), room[t + 128] = pair_of(in[row + t + 128], t + 128);
  for (int size = 2; size <= 256; size *= 2)
    for (int step = size / 2; step; step /= 2) {
      __syncthreads();
      const int i = t / step * 2 * step + t % step, j = i + step;
      const Pair x = room[i], y = room[j];
      if ((x > y) == ((i & size) == 0)) room[i] = y, room[j] = x;
    }
  __syncthreads();
  for (int i = t; i < 256; i += 128) keys[row + i] = room[i] >> 32, places[row + i] = static_cast<unsigned>(room[i]);
}

// A warp for a row: number lane * 8 + j is held by a lane; steps of eight and more are shuffles.
__global__ void __launch_bounds__(128) pairs_lanes(unsigned* keys, unsigned* places, const uint4* in, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const uint4 u = in[int64_t{row} * 64 + lane * 2], v = in[int64_t{row} * 64 + lane * 2 + 1];
  const unsigned of[8] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
  Pair x[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) x[j] = pair_of(of[j], lane * 8 + j);
#pragma unroll
  for (int size = 2; size <= 256; size *= 2)
#pragma unroll
    for (int step = size / 2; step; step /= 2) {
      if (step >= 8) {
        const bool up = (lane * 8 & size) == 0, low = (lane & step / 8) == 0;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const Pair other = __shfl_xor_sync(ALL, x[j], step / 8);
          x[j] = (low == up) == (other < x[j]) ? other : x[j];
        }
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if ((j & step) == 0) {
            const bool up = ((lane * 8 + j) & size) == 0;
            const Pair p = x[j], q = x[j | step];
            if ((p > q) == up) x[j] = q, x[j | step] = p;
          }
      }
    }
#pragma unroll
  for (int j = 0; j < 8; ++j) keys[int64_t{row} * 256 + lane * 8 + j] = x[j] >> 32;
#pragma unroll
  for (int j = 0; j < 8; ++j) places[int64_t{row} * 256 + lane * 8 + j] = static_cast<unsigned>(x[j]);
}

// Each key counts those before it.
__global__ void __launch_bounds__(256) pairs_counted(unsigned* keys, unsigned* places, const unsigned* in) {
  __shared__ uint4 room[64];
  const int t = threadIdx.x;
  const int64_t row = int64_t{blockIdx.x} * 256;
  const unsigned mine = in[row + t];
  reinterpret_cast<unsigned*>(room)[t] = mine;
  __syncthreads();
  int rank = 0;
#pragma unroll 8
  for (int i = 0; i < 64; ++i) {
    const uint4 v = room[i];
    rank += v.x < mine || (v.x == mine && 4 * i < t);
    rank += v.y < mine || (v.y == mine && 4 * i + 1 < t);
    rank += v.z < mine || (v.z == mine && 4 * i + 2 < t);
    rank += v.w < mine || (v.w == mine && 4 * i + 3 < t);
  }
  keys[row + rank] = mine;
  places[row + rank] = t;
}

// The potential of 256 charges (x, y, z, charge) at each point of a plane below them.
constexpr int CHARGES = 256;
constexpr float APART = 0.01f, BELOW = 0.5f;

__device__ __forceinline__ float at_point(float4 q, float x, float y) {
  const float dx = q.x - x, dy = q.y - y, dz = q.z + BELOW;
  return q.w * rsqrtf(dx * dx + dy * dy + dz * dz);
}

__global__ void potential_one(float* out, const float4* charges, int columns) {
  const int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  float sum = 0.0f;
  for (int n = 0; n < CHARGES; ++n) sum += at_point(charges[n], i * APART, j * APART);
  out[int64_t{j} * columns + i] = sum;
}

__global__ void __launch_bounds__(256) potential_staged(float* out, const float4* charges, int columns) {
  __shared__ float4 room[CHARGES];
  const int t = threadIdx.y * 32 + threadIdx.x, i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  room[t] = charges[t];
  __syncthreads();
  float sum = 0.0f;
#pragma unroll 8
  for (int n = 0; n < CHARGES; ++n) sum += at_point(room[n], i * APART, j * APART);
  out[int64_t{j} * columns + i] = sum;
}

// Four points of a row a thread: what they have in common is found once.
__global__ void __launch_bounds__(128) potential_four(float4* out, const float4* charges, int vectors) {
  __shared__ float4 room[CHARGES];
  const int t = threadIdx.y * 16 + threadIdx.x, i = blockIdx.x * 16 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
  for (int n = t; n < CHARGES; n += 128) {
    const float4 q = charges[n];
    room[n] = make_float4(q.x, q.y, (q.z + BELOW) * (q.z + BELOW), q.w);
  }
  __syncthreads();
  const float x = 4 * i * APART, y = j * APART;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
  for (int n = 0; n < CHARGES; ++n) {
    const float4 q = room[n];
    const float dx = q.x - x, dy = q.y - y, rest = dy * dy + q.z;
    const float d1 = dx - APART, d2 = dx - 2 * APART, d3 = dx - 3 * APART;
    sum.x += q.w * rsqrtf(dx * dx + rest), sum.y += q.w * rsqrtf(d1 * d1 + rest);
    sum.z += q.w * rsqrtf(d2 * d2 + rest), sum.w += q.w * rsqrtf(d3 * d3 + rest);
  }
  out[int64_t{j} * vectors + i] = sum;
}

// Slopes across and down of a picture of bytes, their sizes added; beyond its rim it goes on.
__device__ __forceinline__ int slopes(int a, int b, int c, int d, int e, int f, int g, int h) {
  const int across = c + 2 * e + h - a - 2 * d - f, down = f + 2 * g + h - a - 2 * b - c;
  return min(abs(across) + abs(down), 255);
}

__global__ void edges_one(uint8_t* out, const uint8_t* in, int rows, int columns) {
  const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
  const uint8_t *mid = in + y * columns, *up = in + max(y - 1, 0) * columns, *low = in + min(y + 1, rows - 1) * columns;
  const int l = max(x - 1, 0), r = min(x + 1, columns - 1);
  out[y * columns + x] = slopes(up[l], up[x], up[r], mid[l], mid[r], low[l], low[x], low[r]);
}

__global__ void __launch_bounds__(256) edges_staged(uint8_t* out, const uint8_t* in, int rows, int columns) {
  __shared__ uint8_t tile[18][68];
  const int t = threadIdx.x, left = blockIdx.x * 64 - 1, top = blockIdx.y * 16 - 1;
  for (int i = t; i < 18 * 66; i += 256) {
    const int x = min(max(left + i % 66, 0), columns - 1), y = min(max(top + i / 66, 0), rows - 1);
    tile[i / 66][i % 66] = in[y * columns + x];
  }
  __syncthreads();
  const int x = t % 64 + 1;
#pragma unroll
  for (int y = t / 64 + 1; y <= 16; y += 4)
    out[(top + y) * columns + left + x] = slopes(tile[y - 1][x - 1], tile[y - 1][x], tile[y - 1][x + 1], tile[y][x - 1],
                                                 tile[y][x + 1], tile[y + 1][x - 1], tile[y + 1][x], tile[y + 1][x + 1]);
}

// Four pixels a thread: three words and what is beside them.
__global__ void edges_four(unsigned* out, const unsigned* in, int rows, int words) {
  const int i = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
  if (i >= words) return;
  int p[3][6];
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const unsigned* row = in + min(max(y + j - 1, 0), rows - 1) * words;
    const unsigned w = row[i], l = i ? row[i - 1] >> 24 : w & 255, r = i + 1 < words ? row[i + 1] & 255 : w >> 24;
    p[j][0] = l, p[j][1] = w & 255, p[j][2] = w >> 8 & 255, p[j][3] = w >> 16 & 255, p[j][4] = w >> 24, p[j][5] = r;
  }
  unsigned result = 0;
#pragma unroll
  for (int x = 0; x < 4; ++x)
    result |= slopes(p[0][x], p[0][x + 1], p[0][x + 2], p[1][x], p[1][x + 2], p[2][x], p[2][x + 1], p[2][x + 2]) << 8 * x;
  out[y * words + i] = result;
}

}  // namespace

LAUNCHER(plane_wave_each) {
  wave_one<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>((float*)out, (const float*)in, (const float*)in + a * b, a, b);
  return cudaGetLastError();
}
LAUNCHER(plane_wave_shared) {
  wave_shared<<<dim3(b / 32, a / 16), 256, 0, stream>>>((float*)out, (const float*)in, (const float*)in + a * b, a, b);
  return cudaGetLastError();
}
LAUNCHER(plane_wave_queue) {
  wave_queue<<<dim3(b / 128, a / 16), 128, 0, stream>>>((float*)out, (const float*)in, (const float*)in + a * b, a, b);
  return cudaGetLastError();
}
LAUNCHER(row_bins_block) {
  bins_block<<<a, 256, 0, stream>>>((unsigned*)out, (const float*)in, b);
  return cudaGetLastError();
}
LAUNCHER(row_bins_warps) {
  bins_warps<<<a, 256, 0, stream>>>((unsigned*)out, (const float4*)in, b / 4);
  return cudaGetLastError();
}
LAUNCHER(row_bins_matched) {
  bins_matched<<<a, 256, 0, stream>>>((unsigned*)out, (const float4*)in, b / 4);
  return cudaGetLastError();
}
LAUNCHER(record_columns_each) {
  records_one<<<ceil_div(a * b, 256), 256, 0, stream>>>((float*)out, (const float*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(record_columns_fours) {
  records_four<<<ceil_div(a * b, 256), 256, 0, stream>>>((float*)out, (const float4*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(record_columns_staged) {
  records_staged<<<a * b / 256, 256, 0, stream>>>((float*)out, (const float4*)in, a * b);
  return cudaGetLastError();
}
LAUNCHER(channel_sums_alone) {
  channel_alone<<<b, 256, 0, stream>>>((float*)out, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(channel_sums_split) {
  clear_sums<<<ceil_div(2 * b, 256), 256, 0, stream>>>((float*)out, 2 * b);
  channel_split<<<dim3(b, a < 64 ? 2 : 8), 256, 0, stream>>>((float*)out, (const float4*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(channel_sums_planes) {
  float2* parts = (float2*)((float*)out + 2 * b);
  plane_sums<<<ceil_div(a * b, 8), 256, 0, stream>>>(parts, (const float4*)in, a * b);
  join_planes<<<ceil_div(b, 64), 64, 0, stream>>>((float*)out, parts, a, b);
  return cudaGetLastError();
}
LAUNCHER(sorted_pairs_shared) {
  pairs_shared<<<a, 128, 0, stream>>>((unsigned*)out, (unsigned*)out + a * b, (const unsigned*)in);
  return cudaGetLastError();
}
LAUNCHER(sorted_pairs_lanes) {
  pairs_lanes<<<ceil_div(a, 4), 128, 0, stream>>>((unsigned*)out, (unsigned*)out + a * b, (const uint4*)in, a);
  return cudaGetLastError();
}
LAUNCHER(sorted_pairs_counted) {
  pairs_counted<<<a, 256, 0, stream>>>((unsigned*)out, (unsigned*)out + a * b, (const unsigned*)in);
  return cudaGetLastError();
}
LAUNCHER(charge_potential_each) {
  potential_one<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>((float*)out, (const float4*)in, b);
  return cudaGetLastError();
}
LAUNCHER(charge_potential_staged) {
  potential_staged<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>((float*)out, (const float4*)in, b);
  return cudaGetLastError();
}
LAUNCHER(charge_potential_fours) {
  potential_four<<<dim3(b / 64, a / 8), dim3(16, 8), 0, stream>>>((float4*)out, (const float4*)in, b / 4);
  return cudaGetLastError();
}
LAUNCHER(picture_edges_each) {
  edges_one<<<dim3(b / 64, a / 4), dim3(64, 4), 0, stream>>>((uint8_t*)out, (const uint8_t*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(picture_edges_staged) {
  edges_staged<<<dim3(b / 64, a / 16), 256, 0, stream>>>((uint8_t*)out, (const uint8_t*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(picture_edges_fours) {
  edges_four<<<dim3(ceil_div(b, 256), a / 4), dim3(64, 4), 0, stream>>>((unsigned*)out, (const unsigned*)in, a, b / 4);
  return cudaGetLastError();
}
