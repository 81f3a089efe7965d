// What a server does with rows of logits and of hidden states: softmax, greedy choice, row sums, quantization by token,
// and sums of columns as a bias's gradient needs them.
#include <cmath>

#include "common.cuh"

namespace {

// ---- softmax over a vocabulary: bf16 [a, b] to bf16 [a, b], a block a row ----

// The first version one writes: three passes over the row, a tree in shared memory for each reduction.
__global__ void vocab_tree(bf16* out, const bf16* in, int columns) {
  __shared__ float tree[256];
  const bf16* row = in + int64_t{blockIdx.x} * columns;
  const int t = threadIdx.x;
  float largest = -INFINITY;
  for (int i = t; i < columns; i += 256) largest = fmaxf(largest, __bfloat162float(row[i]));
  tree[t] = largest;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (t < half) tree[t] = fmaxf(tree[t], tree[t + half]);
    __syncthreads();
  }
  largest = tree[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = t; i < columns; i += 256) sum += expf(__bfloat162float(row[i]) - largest);
  tree[t] = sum;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (t < half) tree[t] += tree[t + half];
    __syncthreads();
  }
  const float scale = 1.0f / tree[0];
  for (int i = t; i < columns; i += 256)
    out[int64_t{blockIdx.x} * columns + i] = __float2bfloat16(expf(__bfloat162float(row[i]) - largest) * scale);
}

struct Online {
  float largest, sum;
};

__device__ __forceinline__ Online join(Online x, Online y) {
  const float largest = fmaxf(x.largest, y.largest);
  return {largest, x.sum * __expf(x.largest - largest) + y.sum * __expf(y.largest - largest)};
}

__device__ __forceinline__ Online join_lanes(Online x) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1)
    x = join(x, {__shfl_xor_sync(FULL, x.largest, mask), __shfl_xor_sync(FULL, x.sum, mask)});
  return x;
}

// Maximum and sum in one pass, eight at a time; the row is read once more to be written.
__global__ void __launch_bounds__(512) vocab_online(uint4* out, const uint4* in, int vectors) {
  __shared__ Online of_warp[16];
  const uint4* row = in + int64_t{blockIdx.x} * vectors;
  Online mine{-1e30f, 0.0f};
  for (int i = threadIdx.x; i < vectors; i += 512) {
    Eight e{row[i]};
    float x[8], largest = mine.largest;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = __bfloat1622float2(e.pair[k]);
      x[2 * k] = f.x, x[2 * k + 1] = f.y;
      largest = fmaxf(largest, fmaxf(f.x, f.y));
    }
    mine.sum *= __expf(mine.largest - largest);
#pragma unroll
    for (int k = 0; k < 8; ++k) mine.sum += __expf(x[k] - largest);
    mine.largest = largest;
  }
  mine = join_lanes(mine);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  const Online all = join_lanes(of_warp[threadIdx.x % 16]);
  const float scale = 2.0f / all.sum;  // sixteen warps, each joined twice
  for (int i = threadIdx.x; i < vectors; i += 512) {
    Eight e{row[i]};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = __bfloat1622float2(e.pair[k]);
      e.pair[k] = __floats2bfloat162_rn(__expf(f.x - all.largest) * scale, __expf(f.y - all.largest) * scale);
    }
    out[int64_t{blockIdx.x} * vectors + i] = e.raw;
  }
}

// The whole row stays in registers: up to 4 x 8 numbers for each of 1,024 threads.
__global__ void __launch_bounds__(1024) vocab_held(uint4* out, const uint4* in, int vectors) {
  __shared__ float of_warp[32];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const uint4* row = in + int64_t{blockIdx.x} * vectors;
  Eight e[4];
  float largest = -INFINITY;
#pragma unroll
  for (int v = 0; v < 4; ++v)
    if (t + 1024 * v < vectors) e[v].raw = row[t + 1024 * v];
#pragma unroll
  for (int v = 0; v < 4; ++v)
    if (t + 1024 * v < vectors)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float2 f = __bfloat1622float2(e[v].pair[k]);
        largest = fmaxf(largest, fmaxf(f.x, f.y));
      }
  largest = max_lanes(largest);
  if (lane == 0) of_warp[warp] = largest;
  __syncthreads();
  largest = max_lanes(of_warp[lane]);
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int v = 0; v < 4; ++v)
    if (t + 1024 * v < vectors)
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float2 f = __bfloat1622float2(e[v].pair[k]);
        sum += __expf(f.x - largest) + __expf(f.y - largest);
      }
  sum = sum_lanes(sum);
  if (lane == 0) of_warp[warp] = sum;
  __syncthreads();
  const float scale = 1.0f / sum_lanes(of_warp[lane]);
#pragma unroll
  for (int v = 0; v < 4; ++v)
    if (t + 1024 * v < vectors) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float2 f = __bfloat1622float2(e[v].pair[k]);
        e[v].pair[k] = __floats2bfloat162_rn(__expf(f.x - largest) * scale, __expf(f.y - largest) * scale);
      }
      out[int64_t{blockIdx.x} * vectors + t + 1024 * v] = e[v].raw;
    }
}

// ---- the greedy token of each row: fp32 [a, b] to int32 [a]; of equals the first ----

__global__ void token_tree(int* out, const float* in, int columns) {
  __shared__ float value[256];
  __shared__ int place[256];
  const float* row = in + int64_t{blockIdx.x} * columns;
  const int t = threadIdx.x;
  float best = -INFINITY;
  int at = 0;
  for (int i = t; i < columns; i += 256)
    if (row[i] > best) best = row[i], at = i;
  value[t] = best, place[t] = at;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (t < half) {
      const float other = value[t + half];
      if (other > value[t] || (other == value[t] && place[t + half] < place[t])) value[t] = other, place[t] = place[t + half];
    }
    __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = place[0];
}

// One number that orders as (value, earlier place) does: floats by their bits, places upside down.
__device__ __forceinline__ unsigned long long key_of(float x, int place) {
  const unsigned bits = __float_as_uint(x);
  const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<unsigned long long>(ordered) << 32 | static_cast<unsigned>(~place);
}

__device__ __forceinline__ unsigned long long largest_key(unsigned long long key) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) {
    const unsigned long long other = __shfl_xor_sync(FULL, key, mask);
    key = other > key ? other : key;
  }
  return key;
}

// The largest of four and where, of a thread's share of a row; `from` to `to` count vectors.
__device__ __forceinline__ unsigned long long best_of(const float4* row, int from, int to, int step) {
  float best = -INFINITY;
  int at = 0;
  for (int i = from; i < to; i += step) {
    const float4 x = row[i];
    if (x.x > best) best = x.x, at = 4 * i;
    if (x.y > best) best = x.y, at = 4 * i + 1;
    if (x.z > best) best = x.z, at = 4 * i + 2;
    if (x.w > best) best = x.w, at = 4 * i + 3;
  }
  return key_of(best, at);
}

template <int THREADS>
__device__ __forceinline__ unsigned long long best_of_block(unsigned long long key) {
  __shared__ unsigned long long of_warp[THREADS / 32];
  key = largest_key(key);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = key;
  __syncthreads();
  return largest_key(of_warp[threadIdx.x % (THREADS / 32)]);
}

__global__ void __launch_bounds__(512) token_quads(int* out, const float4* in, int vectors) {
  const float4* row = in + int64_t{blockIdx.x} * vectors;
  const unsigned long long key = best_of_block<512>(best_of(row, threadIdx.x, vectors, 512));
  if (threadIdx.x == 0) out[blockIdx.x] = static_cast<int>(~static_cast<unsigned>(key));
}

constexpr int PARTS = 8;

// A row is shared by eight blocks, so that few rows fill the GPU too; a second launch joins them.
__global__ void __launch_bounds__(256) token_part(unsigned long long* keys, const float4* in, int vectors) {
  const float4* row = in + int64_t{blockIdx.y} * vectors;
  const int share = (vectors + PARTS - 1) / PARTS, from = blockIdx.x * share, to = min(from + share, vectors);
  const unsigned long long key = best_of_block<256>(best_of(row, from + threadIdx.x, to, 256));
  if (threadIdx.x == 0) keys[blockIdx.y * PARTS + blockIdx.x] = key;
}
__global__ void token_join(int* out, const unsigned long long* keys, int rows) {
  const int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= rows) return;
  unsigned long long best = 0;
#pragma unroll
  for (int p = 0; p < PARTS; ++p) best = max(best, keys[row * PARTS + p]);
  out[row] = static_cast<int>(~static_cast<unsigned>(best));
}

// ---- sums of rows: bf16 [a, b] to fp32 [a] ----

__global__ void row_tree(float* out, const bf16* in, int columns) {
  __shared__ float tree[256];
  const bf16* row = in + int64_t{blockIdx.x} * columns;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 256) sum += __bfloat162float(row[i]);
  tree[threadIdx.x] = sum;
  __syncthreads();
#pragma unroll
  for (int half = 128; half > 0; half >>= 1) {
    if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = tree[0];
}

__global__ void row_pairs(float* out, const bf162* in, int rows, int pairs) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const bf162* mine = in + int64_t{row} * pairs;
  float sum = 0.0f;
  for (int i = lane; i < pairs; i += 32) {
    const float2 f = __bfloat1622float2(mine[i]);
    sum += f.x + f.y;
  }
  sum = sum_lanes(sum);
  if (lane == 0) out[row] = sum;
}

__device__ __forceinline__ float sum_of(uint4 raw) {
  const Eight e{raw};
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 f = __bfloat1622float2(e.pair[k]);
    sum += f.x + f.y;
  }
  return sum;
}

// Four loads of 16 bytes in flight for each lane.
__global__ void row_wide(float* out, const uint4* in, int rows, int vectors) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const uint4* mine = in + int64_t{row} * vectors + lane;
  float sum = 0.0f;
  for (int i = 0; i < vectors; i += 128) {
    const uint4 p = mine[i], q = mine[i + 32], r = mine[i + 64], s = mine[i + 96];
    sum += sum_of(p) + sum_of(q) + (sum_of(r) + sum_of(s));
  }
  sum = sum_lanes(sum);
  if (lane == 0) out[row] = sum;
}

// ---- int8 by token: bf16 [a, b] to int8 [a, b] and the scale of each row, fp32 [a] ----

__global__ void quant_tree(int8_t* out, float* scales, const bf16* in, int columns) {
  __shared__ float tree[256];
  const bf16* row = in + int64_t{blockIdx.x} * columns;
  float largest = 0.0f;
  for (int i = threadIdx.x; i < columns; i += 256) largest = fmaxf(largest, fabsf(__bfloat162float(row[i])));
  tree[threadIdx.x] = largest;
  __syncthreads();
  for (int half = 128; half > 0; half >>= 1) {
    if (threadIdx.x < half) tree[threadIdx.x] = fmaxf(tree[threadIdx.x], tree[threadIdx.x + half]);
    __syncthreads();
  }
  const float scale = fmaxf(tree[0], 1e-8f) / 127.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < columns; i += 256)
    out[int64_t{blockIdx.x} * columns + i] = static_cast<int8_t>(__float2int_rn(__bfloat162float(row[i]) / scale));
}

__device__ __forceinline__ float largest_of(const Eight& e) {
  float largest = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 f = __bfloat1622float2(e.pair[k]);
    largest = fmaxf(largest, fmaxf(fabsf(f.x), fabsf(f.y)));
  }
  return largest;
}

__device__ __forceinline__ uint2 quantized(const Eight& e, float inverse) {
  unsigned half[2] = {0, 0};
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 f = __bfloat1622float2(e.pair[k]);
    const unsigned low = __float2int_rn(f.x * inverse) & 255, high = __float2int_rn(f.y * inverse) & 255;
    half[k / 2] |= (low | high << 8) << 16 * (k % 2);
  }
  return make_uint2(half[0], half[1]);
}

__device__ __forceinline__ float largest_of_block(float x, float* of_warp) {
  x = max_lanes(x);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  return max_lanes(of_warp[threadIdx.x % 8]);
}

__global__ void __launch_bounds__(256) quant_eights(uint2* out, float* scales, const uint4* in, int vectors) {
  __shared__ float of_warp[8];
  const uint4* row = in + int64_t{blockIdx.x} * vectors;
  float largest = 0.0f;
  for (int i = threadIdx.x; i < vectors; i += 256) largest = fmaxf(largest, largest_of(Eight{row[i]}));
  const float scale = fmaxf(largest_of_block(largest, of_warp), 1e-8f) / 127.0f;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  const float inverse = 1.0f / scale;
  for (int i = threadIdx.x; i < vectors; i += 256)
    out[int64_t{blockIdx.x} * vectors + i] = quantized(Eight{row[i]}, inverse);
}

// At most 4,096 columns: two vectors a thread, read once.
__global__ void __launch_bounds__(256) quant_held(uint2* out, float* scales, const uint4* in, int vectors) {
  __shared__ float of_warp[8];
  const uint4* row = in + int64_t{blockIdx.x} * vectors;
  const int first = threadIdx.x, second = threadIdx.x + 256;
  Eight p{}, q{};
  if (first < vectors) p.raw = row[first];
  if (second < vectors) q.raw = row[second];
  const float largest = largest_of_block(fmaxf(largest_of(p), largest_of(q)), of_warp);
  const float scale = fmaxf(largest, 1e-8f) / 127.0f, inverse = 1.0f / scale;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  uint2* to = out + int64_t{blockIdx.x} * vectors;
  if (first < vectors) to[first] = quantized(p, inverse);
  if (second < vectors) to[second] = quantized(q, inverse);
}

// ---- sums of columns: fp32 [a, b] to fp32 [b] ----

__global__ void columns_alone(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 64 + threadIdx.x;
  float sum = 0.0f;
  for (int y = 0; y < rows; ++y) sum += in[int64_t{y} * columns + x];
  out[x] = sum;
}

constexpr int STRIPS = 64;

__global__ void strip_sums(float* partial, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x, each = rows / STRIPS;
  const float* at = in + int64_t{blockIdx.y} * each * columns + x;
  float sum = 0.0f;
#pragma unroll 4
  for (int y = 0; y < each; ++y) sum += at[int64_t{y} * columns];
  partial[blockIdx.y * columns + x] = sum;
}
__global__ void join_strips(float* out, const float* partial, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x;
  float sum = 0.0f;
#pragma unroll 16
  for (int s = 0; s < STRIPS; ++s) sum += partial[s * columns + x];
  out[x] = sum;
}

// Tiles of 64 rows and 128 columns, four columns a thread; what a block has it adds with atomics.
__global__ void tile_sums(float* out, const float4* in, int vectors) {
  __shared__ float4 part[8][32];
  const int x = blockIdx.x * 32 + threadIdx.x;
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float4 v = in[int64_t{blockIdx.y * 64 + k * 8 + threadIdx.y} * vectors + x];
    sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const int t = threadIdx.y * 32 + threadIdx.x;
  if (t >= 128) return;
  const float* flat = reinterpret_cast<const float*>(part) + t;
  float all = 0.0f;
#pragma unroll
  for (int k = 0; k < 8; ++k) all += flat[128 * k];
  atomicAdd(out + blockIdx.x * 128 + t, all);
}

}  // namespace

LAUNCHER(vocab_softmax_tree) {
  vocab_tree<<<a, 256, 0, stream>>>((bf16*)out, (const bf16*)in, b);
  return cudaGetLastError();
}
LAUNCHER(vocab_softmax_online) {
  vocab_online<<<a, 512, 0, stream>>>((uint4*)out, (const uint4*)in, b / 8);
  return cudaGetLastError();
}
LAUNCHER(vocab_softmax_held) {
  vocab_held<<<a, 1024, 0, stream>>>((uint4*)out, (const uint4*)in, b / 8);
  return cudaGetLastError();
}
LAUNCHER(greedy_token_tree) {
  token_tree<<<a, 256, 0, stream>>>((int*)out, (const float*)in, b);
  return cudaGetLastError();
}
LAUNCHER(greedy_token_quads) {
  token_quads<<<a, 512, 0, stream>>>((int*)out, (const float4*)in, b / 4);
  return cudaGetLastError();
}
LAUNCHER(greedy_token_split) {
  auto* keys = reinterpret_cast<unsigned long long*>((int*)out + a);
  token_part<<<dim3(PARTS, a), 256, 0, stream>>>(keys, (const float4*)in, b / 4);
  token_join<<<div_up(a, 64), 64, 0, stream>>>((int*)out, keys, a);
  return cudaGetLastError();
}
LAUNCHER(bf16_row_sum_tree) {
  row_tree<<<a, 256, 0, stream>>>((float*)out, (const bf16*)in, b);
  return cudaGetLastError();
}
LAUNCHER(bf16_row_sum_pairs) {
  row_pairs<<<div_up(a, 4), 128, 0, stream>>>((float*)out, (const bf162*)in, a, b / 2);
  return cudaGetLastError();
}
LAUNCHER(bf16_row_sum_wide) {
  row_wide<<<div_up(a, 8), 256, 0, stream>>>((float*)out, (const uint4*)in, a, b / 8);
  return cudaGetLastError();
}
LAUNCHER(token_quant_tree) {
  quant_tree<<<a, 256, 0, stream>>>((int8_t*)out, (float*)((char*)out + a * b), (const bf16*)in, b);
  return cudaGetLastError();
}
LAUNCHER(token_quant_eights) {
  quant_eights<<<a, 256, 0, stream>>>((uint2*)out, (float*)((char*)out + a * b), (const uint4*)in, b / 8);
  return cudaGetLastError();
}
LAUNCHER(token_quant_held) {
  quant_held<<<a, 256, 0, stream>>>((uint2*)out, (float*)((char*)out + a * b), (const uint4*)in, b / 8);
  return cudaGetLastError();
}
LAUNCHER(bias_gradient_alone) {
  columns_alone<<<b / 64, 64, 0, stream>>>((float*)out, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(bias_gradient_strips) {
  float* partial = (float*)out + b;
  strip_sums<<<dim3(b / 128, STRIPS), 128, 0, stream>>>(partial, (const float*)in, a, b);
  join_strips<<<b / 128, 128, 0, stream>>>((float*)out, partial, b);
  return cudaGetLastError();
}
LAUNCHER(bias_gradient_atomics) {
  zero_words<<<div_up(b, 256), 256, 0, stream>>>((unsigned*)out, b);
  tile_sums<<<dim3(b / 128, a / 64), dim3(32, 8), 0, stream>>>((float*)out, (const float4*)in, b / 4);
  return cudaGetLastError();
}
