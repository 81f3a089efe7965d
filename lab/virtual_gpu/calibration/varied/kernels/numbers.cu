// Numerical kernels: transforms, recurrences, solvers, random numbers, searches, sparse matrices.
#include "../../general/kernels/common.cuh"

namespace {

// Fast Walsh-Hadamard transform of rows of 1,024.
__global__ void hadamard_shared(float* out, const float* in) {
  __shared__ float x[1024];
  for (int i = threadIdx.x; i < 1024; i += 512) x[i] = in[int64_t{blockIdx.x} * 1024 + i];
  for (int step = 1; step < 1024; step *= 2) {
    __syncthreads();
    const int low = (threadIdx.x & ~(step - 1)) * 2 + (threadIdx.x & (step - 1));
    const float p = x[low], q = x[low + step];
    x[low] = p + q, x[low + step] = p - q;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 1024; i += 512) out[int64_t{blockIdx.x} * 1024 + i] = x[i];
}
// A warp a row, 32 numbers a lane: five steps by shuffles, five in registers.
__global__ void hadamard_warp(float* out, const float* in, int rows) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float x[32];
#pragma unroll
  for (int k = 0; k < 32; ++k) x[k] = in[int64_t{row} * 1024 + k * 32 + lane];
#pragma unroll
  for (int step = 1; step < 32; step *= 2)
#pragma unroll
    for (int k = 0; k < 32; ++k) {
      const float other = __shfl_xor_sync(~0u, x[k], step);
      x[k] = lane & step ? other - x[k] : x[k] + other;
    }
#pragma unroll
  for (int step = 1; step < 32; step *= 2)
#pragma unroll
    for (int k = 0; k < 32; ++k)
      if (!(k & step)) {
        const float p = x[k], q = x[k + step];
        x[k] = p + q, x[k + step] = p - q;
      }
#pragma unroll
  for (int k = 0; k < 32; ++k) out[int64_t{row} * 1024 + k * 32 + lane] = x[k];
}

// Fourier transform of rows of 512 complex numbers, radix 2.
template <bool kAccurate>
__global__ void fourier(float2* out, const float2* in) {
  __shared__ float2 x[2][512];
  const int i = threadIdx.x;
  const int64_t row = int64_t{blockIdx.x} * 512;
  x[0][i] = in[row + i], x[0][i + 256] = in[row + i + 256];
  int from = 0;
  for (int half = 1; half < 512; half *= 2) {
    __syncthreads();
    const int k = i & (half - 1);
    float s, c;
    if (kAccurate) sincospif(-float(k) / half, &s, &c);
    else __sincosf(-3.14159265f * k / half, &s, &c);
    const float2 p = x[from][i], q = x[from][i + 256];
    const float2 t = make_float2(q.x * c - q.y * s, q.x * s + q.y * c);
    const int at = (i - k) * 2 + k;
    x[1 - from][at] = make_float2(p.x + t.x, p.y + t.y), x[1 - from][at + half] = make_float2(p.x - t.x, p.y - t.y);
    from = 1 - from;
  }
  __syncthreads();
  out[row + i] = x[from][i], out[row + i + 256] = x[from][i + 256];
}

// x' = x c + y of b steps for each of a series: stored one behind the other, or side by side.
__global__ void recur_rows(float* out, const float* in, int series, int length) {
  const int s = blockIdx.x * 64 + threadIdx.x;
  if (s >= series) return;
  float x = 0;
  for (int t = 0; t < length; ++t) x = x * 0.9f + in[int64_t{s} * length + t];
  out[s] = x;
}
__global__ void recur_columns(float* out, const float* in, int series, int length) {
  const int s = blockIdx.x * 64 + threadIdx.x;
  if (s >= series) return;
  float x = 0;
  for (int t = 0; t < length; ++t) x = x * 0.9f + in[int64_t{t} * series + s];
  out[s] = x;
}
// The same by tiles through shared memory.
__global__ void recur_tiles(float* out, const float* in, int series, int length) {
  __shared__ float tile[64][33];
  float x = 0;
  for (int t = 0; t < length; t += 32) {
    __syncthreads();
#pragma unroll 8
    for (int k = threadIdx.x; k < 64 * 32; k += 64) tile[k / 32][k % 32] = in[int64_t{blockIdx.x * 64 + k / 32} * length + t + k % 32];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; ++k) x = x * 0.9f + tile[threadIdx.x][k];
  }
  out[blockIdx.x * 64 + threadIdx.x] = x;
}

// Tridiagonal systems of 64 unknowns, one a thread: side by side in memory.
__global__ void thomas_local(float* out, const float* in, int systems) {
  const int s = blockIdx.x * 128 + threadIdx.x;
  if (s >= systems) return;
  float c[64], d[64];
  float cp = 0, dp = 0;
#pragma unroll 8
  for (int k = 0; k < 64; ++k) {
    const float scale = 1.0f / (4.0f - cp);
    cp = scale, dp = (in[int64_t{k} * systems + s] + dp) * scale;
    c[k] = cp, d[k] = dp;
  }
  float x = 0;
#pragma unroll 8
  for (int k = 63; k >= 0; --k) {
    x = d[k] + c[k] * x;
    out[int64_t{k} * systems + s] = x;
  }
}
__global__ void thomas_again(float* out, const float* in, int systems) {
  const int s = blockIdx.x * 128 + threadIdx.x;
  if (s >= systems) return;
  float cp = 0, dp = 0;
  for (int k = 0; k < 64; ++k) {
    const float scale = __fdividef(1.0f, 4.0f - cp);
    cp = scale, dp = (in[int64_t{k} * systems + s] + dp) * scale;
    out[int64_t{k} * systems + s] = dp;
  }
  float x = 0;
  for (int k = 63; k >= 0; --k) {
    x = out[int64_t{k} * systems + s] + 0.26794919f * x;
    out[int64_t{k} * systems + s] = x;
  }
}

// Points in a quarter of a circle: b x 32 draws a thread.
__global__ void draw_linear(unsigned* out, int times) {
  unsigned state = blockIdx.x * 256 + threadIdx.x, inside = 0;
  for (int k = 0; k < times; ++k) {
    state = state * 1664525u + 1013904223u;
    const unsigned x = state >> 16;
    state = state * 1664525u + 1013904223u;
    const unsigned y = state >> 16;
    inside += x * x + y * y < 0xffff0000u;
  }
  out[blockIdx.x * 256 + threadIdx.x] = inside;
}
__global__ void draw_rounds(unsigned* out, int times) {
  unsigned inside = 0;
  for (int k = 0; k < times; ++k) {
    unsigned x = blockIdx.x * 256 + threadIdx.x, y = k;
#pragma unroll
    for (int r = 0; r < 10; ++r) {
      const unsigned high = __umulhi(x, 0xd2511f53u), low = x * 0xd2511f53u;
      x = high ^ y ^ (0x9e3779b9u * r), y = low;
    }
    const float u = (x >> 8) * 0x1p-24f, v = (y >> 8) * 0x1p-24f;
    inside += u * u + v * v < 1.0f;
  }
  out[blockIdx.x * 256 + threadIdx.x] = inside;
}

// The logistic map in 32 and in 64 bits.
template <class Number>
__global__ void logistic(Number* out, const float* in, int times) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  Number x = Number(0.25) * in[i] + Number(0.1);
#pragma unroll 4
  for (int k = 0; k < times; ++k) x = Number(3.7) * x * (Number(1) - x);
  out[i] = x;
}

// The place of each word in an ascending table of 4,096: word k stands for k << 20.
__global__ void search_halving(unsigned* out, const unsigned* in, const unsigned* table, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= n) return;
  const unsigned x = in[i] << 4;
  unsigned low = 0, count = 4096;
  while (count > 1) {
    const unsigned half = count / 2;
    if (((low + half) << 20) + (table[low + half] & 1) <= x) low += half;
    count -= half;
  }
  out[i] = low;
}
__global__ void search_shared(unsigned* out, const unsigned* in, const unsigned* table, int n) {
  __shared__ unsigned mine[4096];
  for (int i = threadIdx.x; i < 4096; i += 512) mine[i] = (i << 20) + (table[i] & 1);
  __syncthreads();
  for (int i = blockIdx.x * 512 + threadIdx.x; i < n; i += gridDim.x * 512) {
    const unsigned x = in[i] << 4;
    unsigned low = 0;
#pragma unroll
    for (int half = 2048; half; half /= 2)
      if (mine[low + half] <= x) low += half;
    out[i] = low;
  }
}

__device__ __forceinline__ unsigned spread(unsigned x) { return (x ^ x >> 15) * 2246822519u; }

// Rows of a sparse matrix with 1 to 64 entries each, from a vector of 65,536: row r begins at 64 r.
__device__ __forceinline__ int entries(unsigned row) { return 1 + (spread(row * 2654435761u) >> 26); }
__global__ void sparse_thread(float* out, const unsigned* columns, const float* values, const float* x, int rows) {
  const int r = blockIdx.x * 128 + threadIdx.x;
  if (r >= rows) return;
  const int count = entries(r);
  float sum = 0;
  for (int k = 0; k < count; ++k) sum += values[int64_t{r} * 64 + k] * x[columns[int64_t{r} * 64 + k] >> 3 & 65535];
  out[r] = sum;
}
__global__ void sparse_warp(float* out, const unsigned* columns, const float* values, const float* x, int rows) {
  const int r = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  const int count = entries(r);
  float sum = 0;
  for (int k = lane; k < count; k += 32) sum += values[int64_t{r} * 64 + k] * x[columns[int64_t{r} * 64 + k] >> 3 & 65535];
  sum = warp_sum(sum);
  if (lane == 0) out[r] = sum;
}
// Eight lanes a row.
__global__ void sparse_eight(float* out, const unsigned* columns, const float* values, const float* x, int rows) {
  const int r = blockIdx.x * 16 + threadIdx.x / 8, lane = threadIdx.x % 8;
  if (r >= rows) return;
  const int count = entries(r);
  float sum = 0;
  for (int k = lane; k < count; k += 8) sum += values[int64_t{r} * 64 + k] * x[columns[int64_t{r} * 64 + k] >> 3 & 65535];
#pragma unroll
  for (int lanes = 4; lanes; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (lane == 0) out[r] = sum;
}

// Sums of runs of equal keys: key of word i is i / 37 or so; a thread a word, or a warp that adds first.
__global__ void runs_each(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) atomicAdd(out + i / 37, in[i]);
}
__global__ void runs_scanned(float* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % 32, key = i / 37;
  float sum = i < n ? in[i] : 0;
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const float lower = __shfl_up_sync(~0u, sum, lanes);
    const int other = __shfl_up_sync(~0u, key, lanes);
    if (lane >= lanes && other == key) sum += lower;
  }
  const int next = __shfl_down_sync(~0u, key, 1);
  if (i < n && (lane == 31 || next != key)) atomicAdd(out + key, sum);
}
__global__ void runs_gathered(float* out, const float* in, int n, int keys) {
  const int key = blockIdx.x * 256 + threadIdx.x;
  if (key >= keys) return;
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 37; ++k)
    if (key * 37 + k < n) sum += in[key * 37 + k];
  out[key] = sum;
}

// Whether each word is above one: 32 to a word.
__global__ void flags_thread(unsigned* out, const float* in, int words) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i >= words) return;
  unsigned bits = 0;
#pragma unroll
  for (int k = 0; k < 32; ++k) bits |= unsigned(in[int64_t{i} * 32 + k] > 1) << k;
  out[i] = bits;
}
__global__ void flags_ballot(unsigned* out, const float* in, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const unsigned bits = __ballot_sync(~0u, in[i] > 1);
  if (threadIdx.x % 32 == 0) out[i / 32] = bits;
}

// Ones among all bits: added up by blocks.
__global__ void ones_words(unsigned* out, const unsigned* in, int n) {
  unsigned sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += __popc(in[i]);
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}
__global__ void ones_fours(unsigned* out, const uint4* in, int n) {
  __shared__ unsigned total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  unsigned sum = 0;
#pragma unroll 4
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    const uint4 x = in[i];
    sum += __popc(x.x) + __popc(x.y) + __popc(x.z) + __popc(x.w);
  }
  atomicAdd(&total, sum);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, total);
}

// The largest of everything, in one launch or in two.
__global__ void most_atomic(int* out, const int* in, int n) {
  int most = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) most = max(most, in[i]);
  atomicMax(out, most);
}
__global__ void most_of_blocks(int* out, const int4* in, int n) {
  __shared__ int of_warp[8];
  int most = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
    const int4 x = in[i];
    most = max(most, max(max(x.x, x.y), max(x.z, x.w)));
  }
  most = __reduce_max_sync(~0u, most);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < 8; ++w) most = max(most, of_warp[w]);
    out[blockIdx.x] = most;
  }
}

// A hash of each row of b words.
__global__ void hash_thread(unsigned* out, const unsigned* in, int rows, int columns) {
  const int r = blockIdx.x * 128 + threadIdx.x;
  if (r >= rows) return;
  unsigned hash = 2166136261u;
  for (int i = 0; i < columns; ++i) hash = (hash ^ in[int64_t{r} * columns + i]) * 16777619u;
  out[r] = hash;
}
__global__ void hash_warp(unsigned* out, const unsigned* in, int rows, int columns) {
  const int r = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (r >= rows) return;
  unsigned hash = 2166136261u + lane;
  for (int i = lane; i < columns; i += 32) hash = (hash ^ in[int64_t{r} * columns + i]) * 16777619u;
  hash = __reduce_xor_sync(~0u, spread(hash));
  if (lane == 0) out[r] = hash;
}

// Longest common subsequence of two rows of 256 words, by diagonals: a block a pair.
__global__ void align_shared(int* out, const unsigned* in) {
  __shared__ int best[3][258];
  __shared__ unsigned first[256];
  const int i = threadIdx.x;
  first[i] = in[int64_t{blockIdx.x} * 512 + i] & 3;
  for (int k = 0; k < 3; ++k) best[k][i + 1] = 0;
  if (i == 0) best[0][0] = best[1][0] = best[2][0] = 0;
  __syncthreads();
  const unsigned mine = in[int64_t{blockIdx.x} * 512 + 256 + i] & 3;
  for (int d = 0; d < 511; ++d) {
    const int j = d - i;
    int value = 0;
    if (j >= 0 && j < 256)
      value = first[j] == mine ? best[(d + 1) % 3][i] + 1 : max(best[(d + 2) % 3][i], best[(d + 2) % 3][i + 1]);
    __syncthreads();
    best[d % 3][i + 1] = value;
    __syncthreads();
  }
  if (i == 255) out[blockIdx.x] = best[510 % 3][256];
}
// Eight columns a lane, by shuffles: a warp a pair.
__global__ void align_warp(int* out, const unsigned* in, int pairs) {
  const int pair = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (pair >= pairs) return;
  unsigned mine[8];
  int above[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) mine[k] = in[int64_t{pair} * 512 + 256 + lane * 8 + k] & 3, above[k] = 0;
  int corner = 0, edge = 0;
  for (int d = 0; d < 256 + 31; ++d) {
    const int row = d - lane;
    const int left_now = __shfl_up_sync(~0u, above[7], 1);
    if (row >= 0 && row < 256) {
      const unsigned letter = in[int64_t{pair} * 512 + row] & 3;
      int left = lane ? left_now : 0, diagonal = lane ? corner : 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const int up = above[k];
        above[k] = letter == mine[k] ? diagonal + 1 : max(up, left);
        diagonal = up, left = above[k];
      }
    }
    corner = left_now, edge += corner;
  }
  if (lane == 31) out[pair] = above[7] + (edge & 0);
}

}  // namespace

#define FLOATS (float*)out, (const float*)in
#define WORDS (unsigned*)out, (const unsigned*)in
#define SPARSE (float*)out, (const unsigned*)in, (const float*)in + a * b, (const float*)in
LAUNCHER(hadamard_in_shared) { LAUNCH(hadamard_shared, a, 512, FLOATS); }
LAUNCHER(hadamard_by_warps) { LAUNCH(hadamard_warp, cover(a, 4), 128, FLOATS, a); }
LAUNCHER(fourier_accurate) { LAUNCH(fourier<true>, a, 256, (float2*)out, (const float2*)in); }
LAUNCHER(fourier_quick) { LAUNCH(fourier<false>, a, 256, (float2*)out, (const float2*)in); }
LAUNCHER(recur_along_rows) { LAUNCH(recur_rows, cover(a, 64), 64, FLOATS, a, b); }
LAUNCHER(recur_along_columns) { LAUNCH(recur_columns, cover(a, 64), 64, FLOATS, a, b); }
LAUNCHER(recur_by_tiles) { LAUNCH(recur_tiles, a / 64, 64, FLOATS, a, b); }
LAUNCHER(solve_with_local_memory) { LAUNCH(thomas_local, cover(a, 128), 128, FLOATS, a); }
LAUNCHER(solve_through_output) { LAUNCH(thomas_again, cover(a, 128), 128, FLOATS, a); }
LAUNCHER(draw_by_products) { LAUNCH(draw_linear, a, 256, (unsigned*)out, b * 32); }
LAUNCHER(draw_by_rounds) { LAUNCH(draw_rounds, a, 256, (unsigned*)out, b * 32); }
LAUNCHER(logistic_in_floats) { LAUNCH(logistic<float>, a, 256, FLOATS, b); }
LAUNCHER(logistic_in_doubles) { LAUNCH(logistic<double>, a, 256, (double*)out, (const float*)in, b); }
LAUNCHER(search_in_global) { LAUNCH(search_halving, a * b / 256, 256, WORDS, (const unsigned*)in, a * b); }
LAUNCHER(search_in_shared) { LAUNCH(search_shared, 264, 512, WORDS, (const unsigned*)in, a * b); }
LAUNCHER(sparse_by_thread) { LAUNCH(sparse_thread, cover(a, 128), 128, SPARSE, a); }
LAUNCHER(sparse_by_warp) { LAUNCH(sparse_warp, cover(a, 4), 128, SPARSE, a); }
LAUNCHER(sparse_by_eight) { LAUNCH(sparse_eight, cover(a, 16), 128, SPARSE, a); }
LAUNCHER(add_runs_each) { LAUNCH(runs_each, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(add_runs_by_warps) { LAUNCH(runs_scanned, a * b / 256, 256, FLOATS, a * b); }
LAUNCHER(add_runs_in_loops) { LAUNCH(runs_gathered, cover(cover(a * b, 37), 256), 256, FLOATS, a * b, cover(a * b, 37)); }
LAUNCHER(flag_by_thread) { LAUNCH(flags_thread, cover(a * b / 32, 256), 256, (unsigned*)out, (const float*)in, a * b / 32); }
LAUNCHER(flag_by_ballot) { LAUNCH(flags_ballot, a * b / 256, 256, (unsigned*)out, (const float*)in, a * b); }
LAUNCHER(count_ones_by_words) { LAUNCH(ones_words, 1056, 256, WORDS, a * b); }
LAUNCHER(count_ones_by_fours) { LAUNCH(ones_fours, 528, 256, (unsigned*)out, (const uint4*)in, a * b / 4); }
LAUNCHER(largest_by_atomics) { LAUNCH(most_atomic, 1056, 256, (int*)out, (const int*)in, a * b); }
LAUNCHER(largest_by_launches) {
  int* of_blocks = (int*)out + 1024;
  most_of_blocks<<<512, 256, 0, stream>>>(of_blocks, (const int4*)in, a * b / 4);
  LAUNCH(most_of_blocks, 1, 256, (int*)out, (const int4*)of_blocks, 128);
}
LAUNCHER(hash_by_thread) { LAUNCH(hash_thread, cover(a, 128), 128, WORDS, a, b); }
LAUNCHER(hash_by_warp) { LAUNCH(hash_warp, cover(a, 8), 256, WORDS, a, b); }
LAUNCHER(align_in_shared) { LAUNCH(align_shared, a, 256, (int*)out, (const unsigned*)in); }
LAUNCHER(align_by_warps) { LAUNCH(align_warp, cover(a, 4), 128, (int*)out, (const unsigned*)in, a); }
