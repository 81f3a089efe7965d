// Pictures and volumes: pooling, resampling, colours, windows, permuted axes, cellular automata.
#include "../../general/kernels/common.cuh"

namespace {

// The largest of 2 x 2: out has a rows of b, in twice as many of each.
__global__ void pool_scalar(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x >= columns || y >= rows) return;
  const float* at = in + int64_t{2 * y} * 2 * columns + 2 * x;
  out[int64_t{y} * columns + x] = fmaxf(fmaxf(at[0], at[1]), fmaxf(at[2 * columns], at[2 * columns + 1]));
}
__global__ void pool_pairs(float2* out, const float4* in, int rows, int pairs) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x >= pairs || y >= rows) return;
  const float4 p = in[int64_t{2 * y} * pairs + x], q = in[int64_t{2 * y + 1} * pairs + x];
  out[int64_t{y} * pairs + x] = make_float2(fmaxf(fmaxf(p.x, p.y), fmaxf(q.x, q.y)), fmaxf(fmaxf(p.z, p.w), fmaxf(q.z, q.w)));
}

// The largest of 3 x 3 around each.
__global__ void window_global(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  float most = -1e30f;
  for (int j = max(y - 1, 0); j <= min(y + 1, rows - 1); ++j)
    for (int i = max(x - 1, 0); i <= min(x + 1, columns - 1); ++i) most = fmaxf(most, in[int64_t{j} * columns + i]);
  out[int64_t{y} * columns + x] = most;
}
__global__ void window_clamped(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const int left = max(x - 1, 0), right = min(x + 1, columns - 1);
  float most = -1e30f;
#pragma unroll
  for (int j = -1; j <= 1; ++j) {
    const float* row = in + int64_t{min(max(y + j, 0), rows - 1)} * columns;
    most = fmaxf(most, fmaxf(row[left], fmaxf(row[x], row[right])));
  }
  out[int64_t{y} * columns + x] = most;
}
__global__ void window_shuffled(float* out, const float* in, int rows, int columns) {
  const int lane = threadIdx.x, x = blockIdx.x * 30 + lane - 1, y = blockIdx.y * 8 + threadIdx.y;
  const int column = min(max(x, 0), columns - 1);
  float most = in[int64_t{y} * columns + column];
  most = fmaxf(most, in[int64_t{max(y - 1, 0)} * columns + column]);
  most = fmaxf(most, in[int64_t{min(y + 1, rows - 1)} * columns + column]);
  const float left = __shfl_up_sync(~0u, most, 1), right = __shfl_down_sync(~0u, most, 1);
  if (lane > 0 && lane < 31 && x < columns) out[int64_t{y} * columns + x] = fmaxf(most, fmaxf(left, right));
}

// Twice as many rows and columns, by weights of the four neighbours.
__global__ void grow_each(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const float fx = fmaxf(0.5f * x - 0.25f, 0), fy = fmaxf(0.5f * y - 0.25f, 0);
  const int left = fx, top = fy, right = min(left + 1, columns - 1), bottom = min(top + 1, rows - 1);
  const float u = fx - left, v = fy - top;
  const float* p = in + int64_t{top} * columns;
  const float* q = in + int64_t{bottom} * columns;
  out[int64_t{y} * 2 * columns + x] =
      (1 - v) * ((1 - u) * p[left] + u * p[right]) + v * ((1 - u) * q[left] + u * q[right]);
}
__global__ void grow_pairs(float2* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const float fy = fmaxf(0.5f * y - 0.25f, 0);
  const int top = fy, bottom = min(top + 1, rows - 1), left = max(x - 1, 0), right = min(x + 1, columns - 1);
  const float v = fy - top;
  const float* p = in + int64_t{top} * columns;
  const float* q = in + int64_t{bottom} * columns;
  const float l = (1 - v) * p[left] + v * q[left], m = (1 - v) * p[x] + v * q[x], r = (1 - v) * p[right] + v * q[right];
  out[int64_t{y} * columns + x] = make_float2(0.25f * l + 0.75f * m, 0.75f * m + 0.25f * r);
}

// Bytes red, green, blue to one of grey.
__global__ void grey_bytes(uint8_t* out, const uint8_t* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = (in[3 * i] * 77 + in[3 * i + 1] * 150 + in[3 * i + 2] * 29) >> 8;
}
__global__ void grey_words(unsigned* out, const unsigned* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const unsigned words[3] = {in[3 * i], in[3 * i + 1], in[3 * i + 2]};
  unsigned result = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    unsigned grey = 0;
#pragma unroll
    for (int c = 0; c < 3; ++c) grey += (words[(3 * k + c) / 4] >> (3 * k + c) % 4 * 8 & 255) * (c == 0 ? 77 : c == 1 ? 150 : 29);
    result |= grey >> 8 << 8 * k;
  }
  out[i] = result;
}

// Bytes through a table of 256.
__global__ void table_global(uint8_t* out, const uint8_t* in, const uint8_t* table, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) out[i] = table[in[i]];
}
__global__ void table_shared(unsigned* out, const unsigned* in, const uint8_t* table, int n) {
  __shared__ uint8_t mine[256];
  mine[threadIdx.x] = table[threadIdx.x];
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    const unsigned x = in[i];
    out[i] = mine[x & 255] | mine[x >> 8 & 255] << 8 | mine[x >> 16 & 255] << 16 | unsigned{mine[x >> 24]} << 24;
  }
}

// Windows of 3 x 3 of each of a channels become rows of nine.
__global__ void windows_by_element(float* out, const float* in, int side) {
  const int i = blockIdx.x * 256 + threadIdx.x, channel = blockIdx.y, places = side * side;
  if (i >= 9 * places) return;
  const int k = i / places, at = i % places, x = at % side + k % 3 - 1, y = at / side + k / 3 - 1;
  out[int64_t{channel} * 9 * places + i] = x >= 0 && x < side && y >= 0 && y < side ? in[int64_t{channel} * places + y * side + x] : 0;
}
__global__ void windows_by_place(float* out, const float* in, int side) {
  const int at = blockIdx.x * 256 + threadIdx.x, channel = blockIdx.y, places = side * side;
  if (at >= places) return;
  const int x0 = at % side, y0 = at / side;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    const int x = x0 + k % 3 - 1, y = y0 + k / 3 - 1;
    out[int64_t{channel} * 9 * places + k * places + at] =
        x >= 0 && x < side && y >= 0 && y < side ? in[int64_t{channel} * places + y * side + x] : 0;
  }
}

// Each of a channels of 64 x 64 with its own 3 x 3 weights.
__global__ void depth_global(float* out, const float* in) {
  const int x = threadIdx.x, y = blockIdx.x * 4 + threadIdx.y;
  const float* mine = in + int64_t{blockIdx.y} * 4096;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 9; ++k) {
    const int i = x + k % 3 - 1, j = y + k / 3 - 1;
    if (i >= 0 && i < 64 && j >= 0 && j < 64) sum += mine[j * 64 + i] * in[blockIdx.y * 9 + k];
  }
  out[int64_t{blockIdx.y} * 4096 + y * 64 + x] = sum;
}
__global__ void depth_shared(float* out, const float* in) {
  __shared__ float tile[66][66];
  const float* mine = in + int64_t{blockIdx.x} * 4096;
  for (int i = threadIdx.x; i < 66 * 66; i += 256) {
    const int x = i % 66 - 1, y = i / 66 - 1;
    tile[i / 66][i % 66] = x >= 0 && x < 64 && y >= 0 && y < 64 ? mine[y * 64 + x] : 0.0f;
  }
  float weight[9];
#pragma unroll
  for (int k = 0; k < 9; ++k) weight[k] = in[blockIdx.x * 9 + k];
  __syncthreads();
  for (int i = threadIdx.x; i < 4096; i += 256) {
    const int x = i % 64, y = i / 64;
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 9; ++k) sum += tile[y + k / 3][x + k % 3] * weight[k];
    out[int64_t{blockIdx.x} * 4096 + i] = sum;
  }
}

// [a, 32, b] to [32, a, b].
__global__ void axes_scalar(__half* out, const __half* in, int columns) {
  const int64_t from = (int64_t{blockIdx.x} * 32 + blockIdx.y) * columns, to = (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * columns;
  for (int i = threadIdx.x; i < columns; i += 64) out[to + i] = in[from + i];
}
__global__ void axes_eights(uint4* out, const uint4* in, int vectors, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const int column = i % vectors, row = i / vectors, head = row % 32, token = row / 32;
  out[(int64_t{head} * (n / vectors / 32) + token) * vectors + column] = in[i];
}

// Conway's game on bytes.
__global__ void life_bytes(uint8_t* out, const uint8_t* in, int rows, int columns) {
  const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
  int around = 0;
#pragma unroll
  for (int j = -1; j <= 1; ++j)
#pragma unroll
    for (int i = -1; i <= 1; ++i)
      if (i || j) around += in[int64_t{(y + j + rows) % rows} * columns + (x + i + columns) % columns] & 1;
  out[int64_t{y} * columns + x] = around == 3 || (around == 2 && in[int64_t{y} * columns + x] & 1);
}
__global__ void life_words(unsigned* out, const unsigned* in, int rows, int words) {
  const int x = blockIdx.x * 64 + threadIdx.x, y = blockIdx.y * 4 + threadIdx.y;
  const int left = x ? x - 1 : words - 1, right = x + 1 < words ? x + 1 : 0;
  unsigned around = 0, mine = 0;
#pragma unroll
  for (int j = -1; j <= 1; ++j) {
    const unsigned* row = in + int64_t{(y + j + rows) % rows} * words;
    const unsigned m = row[x] & 0x01010101u;
    around += m + ((m << 8) | (row[left] >> 24 & 1)) + ((m >> 8) | (row[right] & 1) << 24);
    if (j == 0) mine = m, around -= m;
  }
  unsigned result = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const unsigned count = around >> 8 * k & 15;
    result |= unsigned(count == 3 || (count == 2 && (mine >> 8 * k & 1))) << 8 * k;
  }
  out[int64_t{y} * words + x] = result;
}

// A blur of nine in each direction: in two launches, or in one.
__global__ void blur_rows(float* out, const float* in, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x;
  float sum = 0;
#pragma unroll
  for (int k = -4; k <= 4; ++k) sum += in[int64_t{blockIdx.y} * columns + min(max(x + k, 0), columns - 1)];
  out[int64_t{blockIdx.y} * columns + x] = sum / 9;
}
__global__ void blur_columns(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y;
  float sum = 0;
#pragma unroll
  for (int k = -4; k <= 4; ++k) sum += in[int64_t{min(max(y + k, 0), rows - 1)} * columns + x];
  out[int64_t{y} * columns + x] = sum / 9;
}
__global__ void blur_both(float* out, const float* in, int rows, int columns) {
  __shared__ float tile[24][40], half_done[24][32];
  const int left = blockIdx.x * 32 - 4, top = blockIdx.y * 16 - 4;
  for (int i = threadIdx.x; i < 24 * 40; i += 256)
    tile[i / 40][i % 40] = in[int64_t{min(max(top + i / 40, 0), rows - 1)} * columns + min(max(left + i % 40, 0), columns - 1)];
  __syncthreads();
  for (int i = threadIdx.x; i < 24 * 32; i += 256) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 9; ++k) sum += tile[i / 32][i % 32 + k];
    half_done[i / 32][i % 32] = sum / 9;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 16 * 32; i += 256) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 9; ++k) sum += half_done[i / 32 + k][i % 32];
    out[int64_t{top + 4 + i / 32} * columns + left + 4 + i % 32] = sum / 9;
  }
}

}  // namespace

#define FLOATS (float*)out, (const float*)in
#define BYTES (uint8_t*)out, (const uint8_t*)in
#define WORDS (unsigned*)out, (const unsigned*)in
LAUNCHER(pool_by_words) { LAUNCH(pool_scalar, dim3(cover(b, 32), cover(a, 8)), dim3(32, 8), FLOATS, a, b); }
LAUNCHER(pool_by_pairs) { LAUNCH(pool_pairs, dim3(cover(b, 64), cover(a, 8)), dim3(32, 8), (float2*)out, (const float4*)in, a, b / 2); }
LAUNCHER(window_in_loops) { LAUNCH(window_global, dim3(b / 32, a / 8), dim3(32, 8), FLOATS, a, b); }
LAUNCHER(window_unrolled) { LAUNCH(window_clamped, dim3(b / 32, a / 8), dim3(32, 8), FLOATS, a, b); }
LAUNCHER(window_with_shuffles) { LAUNCH(window_shuffled, dim3(cover(b, 30), a / 8), dim3(32, 8), FLOATS, a, b); }
LAUNCHER(grow_by_words) { LAUNCH(grow_each, dim3(2 * b / 32, 2 * a / 8), dim3(32, 8), FLOATS, a, b); }
LAUNCHER(grow_by_pairs) { LAUNCH(grow_pairs, dim3(b / 32, 2 * a / 8), dim3(32, 8), (float2*)out, (const float*)in, a, b); }
LAUNCHER(grey_by_bytes) { LAUNCH(grey_bytes, a * b / 256, 256, BYTES, a * b); }
LAUNCHER(grey_by_words) { LAUNCH(grey_words, cover(a * b / 4, 256), 256, WORDS, a * b / 4); }
LAUNCHER(look_up_in_global) { LAUNCH(table_global, a * b / 256, 256, BYTES, (const uint8_t*)in, a * b); }
LAUNCHER(look_up_in_shared) { LAUNCH(table_shared, 528, 256, WORDS, (const uint8_t*)in, a * b / 4); }
LAUNCHER(unfold_by_element) { LAUNCH(windows_by_element, dim3(cover(9 * b * b, 256), a), 256, FLOATS, b); }
LAUNCHER(unfold_by_place) { LAUNCH(windows_by_place, dim3(cover(b * b, 256), a), 256, FLOATS, b); }
LAUNCHER(depthwise_from_global) { LAUNCH(depth_global, dim3(16, a), dim3(64, 4), FLOATS); }
LAUNCHER(depthwise_from_shared) { LAUNCH(depth_shared, a, 256, FLOATS); }
LAUNCHER(swap_axes_by_halves) { LAUNCH(axes_scalar, dim3(a, 32), 64, (__half*)out, (const __half*)in, b); }
LAUNCHER(swap_axes_by_eights) { LAUNCH(axes_eights, cover(a * 32 * b / 8, 256), 256, (uint4*)out, (const uint4*)in, b / 8, a * 32 * b / 8); }
LAUNCHER(life_by_bytes) { LAUNCH(life_bytes, dim3(b / 64, a / 4), dim3(64, 4), BYTES, a, b); }
LAUNCHER(life_by_words) { LAUNCH(life_words, dim3(b / 256, a / 4), dim3(64, 4), WORDS, a, b / 4); }
LAUNCHER(blur_in_two_launches) {
  float* half_done = (float*)out + a * b;
  blur_rows<<<dim3(b / 128, a), 128, 0, stream>>>(half_done, (const float*)in, b);
  LAUNCH(blur_columns, dim3(b / 128, a), 128, (float*)out, half_done, a, b);
}
LAUNCHER(blur_in_one_launch) { LAUNCH(blur_both, dim3(b / 32, a / 16), 256, FLOATS, a, b); }
