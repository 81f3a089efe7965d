// Kernels that work on rows: softmax, norms, quantization, rotation, sorting, scans.
#include "common.cuh"

namespace {

__global__ void softmax_three_passes(float* out, const float* in, int columns) {
  __shared__ float shared[256];
  const float* row = in + int64_t{blockIdx.x} * columns;
  float most = -1e30f, sum = 0;
  for (int i = threadIdx.x; i < columns; i += 256) most = fmaxf(most, row[i]);
  shared[threadIdx.x] = most;
  for (int step = 128; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + step]);
  }
  __syncthreads();
  most = shared[0];
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += 256) sum += expf(row[i] - most);
  shared[threadIdx.x] = sum;
  for (int step = 128; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
  }
  __syncthreads();
  sum = shared[0];
  for (int i = threadIdx.x; i < columns; i += 256)
    out[int64_t{blockIdx.x} * columns + i] = expf(row[i] - most) / sum;
}

__global__ void softmax_online(float* out, const float* in, int rows, int columns) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* x = in + int64_t{row} * columns;
  float most = -1e30f, sum = 0;
  for (int i = lane; i < columns; i += 32) {
    const float value = x[i], larger = fmaxf(most, value);
    sum = sum * __expf(most - larger) + __expf(value - larger);
    most = larger;
  }
  for (int lanes = 16; lanes; lanes /= 2) {
    const float other_most = __shfl_xor_sync(~0u, most, lanes), other_sum = __shfl_xor_sync(~0u, sum, lanes);
    const float larger = fmaxf(most, other_most);
    sum = sum * __expf(most - larger) + other_sum * __expf(other_most - larger);
    most = larger;
  }
  const float scale = 1.0f / sum;
  for (int i = lane; i < columns; i += 32) out[int64_t{row} * columns + i] = __expf(x[i] - most) * scale;
}

// Eight values a thread stay in registers: columns = 8 x threads.
__global__ void softmax_registers(float4* out, const float4* in, int columns) {
  __shared__ float partial[32], total[2];
  const int64_t at = int64_t{blockIdx.x} * (columns / 4) + threadIdx.x;
  float4 p = in[at], q = in[at + blockDim.x];
  float most = fmaxf(fmaxf(fmaxf(p.x, p.y), fmaxf(p.z, p.w)), fmaxf(fmaxf(q.x, q.y), fmaxf(q.z, q.w)));
  for (int lanes = 16; lanes; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = most;
  __syncthreads();
  most = partial[threadIdx.x % (blockDim.x / 32)];
  for (int lanes = 16; lanes; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
  __syncthreads();
  p = make_float4(__expf(p.x - most), __expf(p.y - most), __expf(p.z - most), __expf(p.w - most));
  q = make_float4(__expf(q.x - most), __expf(q.y - most), __expf(q.z - most), __expf(q.w - most));
  const float sum = sum_of_block((p.x + p.y) + (p.z + p.w) + (q.x + q.y) + (q.z + q.w), partial);
  if (threadIdx.x == 0) total[0] = 1.0f / sum;
  __syncthreads();
  const float s = total[0];
  out[at] = make_float4(p.x * s, p.y * s, p.z * s, p.w * s);
  out[at + blockDim.x] = make_float4(q.x * s, q.y * s, q.z * s, q.w * s);
}

__global__ void layernorm_two_passes(__half* out, const __half* in, int columns) {
  __shared__ float partial[32], shared[2];
  const __half* row = in + int64_t{blockIdx.x} * columns;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += __half2float(row[i]);
  sum = sum_of_block(sum, partial);
  if (threadIdx.x == 0) shared[0] = sum / columns;
  __syncthreads();
  const float mean = shared[0];
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float x = __half2float(row[i]) - mean;
    squares += x * x;
  }
  squares = sum_of_block(squares, partial);
  if (threadIdx.x == 0) shared[1] = rsqrtf(squares / columns + 1e-5f);
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    out[int64_t{blockIdx.x} * columns + i] = __float2half((__half2float(row[i]) - mean) * shared[1]);
}

__global__ void layernorm_one_pass(__half2* out, const __half2* in, int pairs) {
  __shared__ float partial[32], shared[2];
  const __half2* row = in + int64_t{blockIdx.x} * pairs;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 x = __half22float2(row[i]);
    sum += x.x + x.y;
    squares += x.x * x.x + x.y * x.y;
  }
  sum = sum_of_block(sum, partial);
  __syncthreads();
  squares = sum_of_block(squares, partial);
  if (threadIdx.x == 0) {
    const float mean = sum / (2 * pairs);
    shared[0] = mean, shared[1] = rsqrtf(squares / (2 * pairs) - mean * mean + 1e-5f);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
    const float2 x = __half22float2(row[i]);
    out[int64_t{blockIdx.x} * pairs + i] =
        __floats2half2_rn((x.x - shared[0]) * shared[1], (x.y - shared[0]) * shared[1]);
  }
}

__global__ void l2norm_warp(float* out, const float* in, int rows, int columns) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float squares = 0;
  for (int i = lane; i < columns; i += 32) squares += in[int64_t{row} * columns + i] * in[int64_t{row} * columns + i];
  const float scale = rsqrtf(__shfl_sync(~0u, warp_sum(squares), 0));
  for (int i = lane; i < columns; i += 32) out[int64_t{row} * columns + i] = in[int64_t{row} * columns + i] * scale;
}

__global__ void l2norm_block(float* out, const float* in, int columns) {
  __shared__ float partial[32], shared;
  const int64_t row = int64_t{blockIdx.x} * columns;
  float squares = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) squares += in[row + i] * in[row + i];
  squares = sum_of_block(squares, partial);
  if (threadIdx.x == 0) shared = rsqrtf(squares);
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[row + i] = in[row + i] * shared;
}

__global__ void quantize_scalar(int8_t* out, const float* in, int columns) {
  __shared__ float most_of[256];
  const float* row = in + int64_t{blockIdx.x} * columns;
  float most = 0;
  for (int i = threadIdx.x; i < columns; i += 256) most = fmaxf(most, fabsf(row[i]));
  most_of[threadIdx.x] = most;
  for (int step = 128; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) most_of[threadIdx.x] = fmaxf(most_of[threadIdx.x], most_of[threadIdx.x + step]);
  }
  __syncthreads();
  const float scale = 127.0f / most_of[0];
  for (int i = threadIdx.x; i < columns; i += 256)
    out[int64_t{blockIdx.x} * columns + i] = static_cast<int8_t>(rintf(row[i] * scale));
}

__global__ void quantize_warp(char4* out, const float4* in, int rows, int vectors) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float4* x = in + int64_t{row} * vectors;
  float most = 0;
  for (int i = lane; i < vectors; i += 32) {
    const float4 v = x[i];
    most = fmaxf(most, fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w))));
  }
  for (int lanes = 16; lanes; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
  const float s = 127.0f / most;
  for (int i = lane; i < vectors; i += 32) {
    const float4 v = x[i];
    out[int64_t{row} * vectors + i] =
        make_char4(rintf(v.x * s), rintf(v.y * s), rintf(v.z * s), rintf(v.w * s));
  }
}

// Pairs (i, i + columns / 2) turn by position x frequency.
__global__ void rotate_on_the_fly(float* out, const float* in, int columns) {
  const int half = columns / 2;
  const int64_t row = int64_t{blockIdx.x} * columns;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    const float angle = blockIdx.x * powf(10000.0f, -2.0f * i / columns);
    const float c = cosf(angle), s = sinf(angle), x = in[row + i], y = in[row + half + i];
    out[row + i] = x * c - y * s;
    out[row + half + i] = y * c + x * s;
  }
}

__global__ void rotate_fast_math(float* out, const float* in, int columns) {
  const int half = columns / 2;
  const int64_t row = int64_t{blockIdx.x} * columns;
  for (int i = threadIdx.x; i < half; i += blockDim.x) {
    float s, c;
    __sincosf(blockIdx.x * exp2f(-13.2877f * (2.0f * i / columns)), &s, &c);
    const float x = in[row + i], y = in[row + half + i];
    out[row + i] = x * c - y * s;
    out[row + half + i] = y * c + x * s;
  }
}

// 1024 keys a block.
__device__ __forceinline__ void exchange(unsigned* key, int i, int other, bool rising) {
  if (other > i && (key[i] > key[other]) == rising) {
    const unsigned kept = key[i];
    key[i] = key[other], key[other] = kept;
  }
}

__global__ void sort_shared(unsigned* out, const unsigned* in) {
  __shared__ unsigned key[1024];
  const int i = threadIdx.x;
  key[i] = in[int64_t{blockIdx.x} * 1024 + i];
  for (int run = 2; run <= 1024; run *= 2)
    for (int step = run / 2; step; step /= 2) {
      __syncthreads();
      exchange(key, i, i ^ step, (i & run) == 0);
    }
  __syncthreads();
  out[int64_t{blockIdx.x} * 1024 + i] = key[i];
}

__global__ void sort_shuffles(unsigned* out, const unsigned* in) {
  __shared__ unsigned key[1024];
  const int i = threadIdx.x;
  unsigned mine = in[int64_t{blockIdx.x} * 1024 + i];
  for (int run = 2; run <= 1024; run *= 2)
    for (int step = run / 2; step; step /= 2) {
      unsigned other;
      if (step >= 32) {
        __syncthreads();
        key[i] = mine;
        __syncthreads();
        other = key[i ^ step];
      } else {
        other = __shfl_xor_sync(~0u, mine, step);
      }
      const bool keep_low = ((i & run) == 0) == ((i & step) == 0);
      mine = keep_low ? min(mine, other) : max(mine, other);
    }
  out[int64_t{blockIdx.x} * 1024 + i] = mine;
}

__global__ void scan_doubling(float* out, const float* in) {
  __shared__ float value[2][512];
  const int i = threadIdx.x;
  int from = 0;
  value[0][i] = in[int64_t{blockIdx.x} * 512 + i];
  for (int step = 1; step < 512; step *= 2) {
    __syncthreads();
    value[1 - from][i] = value[from][i] + (i >= step ? value[from][i - step] : 0.0f);
    from = 1 - from;
  }
  out[int64_t{blockIdx.x} * 512 + i] = value[from][i];
}

__global__ void scan_shuffles(float* out, const float* in) {
  __shared__ float total[16];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float x = in[int64_t{blockIdx.x} * 512 + threadIdx.x];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float lower = __shfl_up_sync(~0u, x, step);
    if (lane >= step) x += lower;
  }
  if (lane == 31) total[warp] = x;
  __syncthreads();
  float before = 0;
  for (int w = 0; w < warp; ++w) before += total[w];
  out[int64_t{blockIdx.x} * 512 + threadIdx.x] = x + before;
}

__global__ void scan_serial(float* out, const float* in, int rows) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0;
  for (int i = 0; i < 512; ++i) {
    sum += in[int64_t{row} * 512 + i];
    out[int64_t{row} * 512 + i] = sum;
  }
}

}  // namespace

LAUNCHER(softmax_by_three_passes) { LAUNCH(softmax_three_passes, a, 256, (float*)out, (const float*)in, b); }
LAUNCHER(softmax_by_online_warps) { LAUNCH(softmax_online, cover(a, 4), 128, (float*)out, (const float*)in, a, b); }
LAUNCHER(softmax_in_registers) { LAUNCH(softmax_registers, a, b / 8, (float4*)out, (const float4*)in, b); }
LAUNCHER(layernorm_by_two_passes) { LAUNCH(layernorm_two_passes, a, 256, (__half*)out, (const __half*)in, b); }
LAUNCHER(layernorm_by_one_pass) { LAUNCH(layernorm_one_pass, a, 256, (__half2*)out, (const __half2*)in, b / 2); }
LAUNCHER(l2norm_by_warp) { LAUNCH(l2norm_warp, cover(a, 8), 256, (float*)out, (const float*)in, a, b); }
LAUNCHER(l2norm_by_block) { LAUNCH(l2norm_block, a, 128, (float*)out, (const float*)in, b); }
LAUNCHER(quantize_by_scalars) { LAUNCH(quantize_scalar, a, 256, (int8_t*)out, (const float*)in, b); }
LAUNCHER(quantize_by_warps) { LAUNCH(quantize_warp, cover(a, 4), 128, (char4*)out, (const float4*)in, a, b / 4); }
LAUNCHER(rotate_accurately) { LAUNCH(rotate_on_the_fly, a, 128, (float*)out, (const float*)in, b); }
LAUNCHER(rotate_quickly) { LAUNCH(rotate_fast_math, a, 128, (float*)out, (const float*)in, b); }
LAUNCHER(sort_in_shared) { LAUNCH(sort_shared, a, 1024, (unsigned*)out, (const unsigned*)in); }
LAUNCHER(sort_with_shuffles) { LAUNCH(sort_shuffles, a, 1024, (unsigned*)out, (const unsigned*)in); }
LAUNCHER(scan_by_doubling) { LAUNCH(scan_doubling, a, 512, (float*)out, (const float*)in); }
LAUNCHER(scan_with_shuffles) { LAUNCH(scan_shuffles, a, 512, (float*)out, (const float*)in); }
LAUNCHER(scan_by_one_thread) { LAUNCH(scan_serial, cover(a, 64), 64, (float*)out, (const float*)in, a); }
