// Reductions: of everything, of rows, of columns.
#include "common.cuh"

namespace {

__global__ void every_thread_adds(float* out, const float* in, int n) {
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  atomicAdd(out, sum);
}

__global__ void every_warp_adds(float* out, const float* in, int n) {
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
}

__global__ void every_block_adds(float* out, const float4* in, int n) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
    const float4 x = in[i];
    sum += (x.x + x.y) + (x.z + x.w);
  }
  sum = sum_of_block(sum, partial);
  if (threadIdx.x == 0) atomicAdd(out, sum);
}

__global__ void dot_scalar(float* out, const float* x, const float* y, int n) {
  __shared__ float partial[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i] * y[i];
  sum = sum_of_block(sum, partial);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ void dot_vector(float* out, const float4* x, const float4* y, int n) {
  __shared__ float partial[32];
  float sum = 0;
#pragma unroll 2
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
    const float4 p = x[i], q = y[i];
    sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  }
  sum = sum_of_block(sum, partial);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ void row_max_thread(float* out, const float* in, int rows, int columns) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float most = -1e30f;
  for (int i = 0; i < columns; ++i) most = fmaxf(most, in[int64_t{row} * columns + i]);
  out[row] = most;
}

__global__ void row_max_warp(float* out, const float* in, int rows, int columns) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float most = -1e30f;
  for (int i = lane; i < columns; i += 32) most = fmaxf(most, in[int64_t{row} * columns + i]);
  for (int lanes = 16; lanes; lanes /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lanes));
  if (lane == 0) out[row] = most;
}

__global__ void row_max_block(float* out, const float* in, int columns) {
  __shared__ float most_of[256];
  float most = -1e30f;
  for (int i = threadIdx.x; i < columns; i += 256) most = fmaxf(most, in[int64_t{blockIdx.x} * columns + i]);
  most_of[threadIdx.x] = most;
  for (int step = 128; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step) most_of[threadIdx.x] = fmaxf(most_of[threadIdx.x], most_of[threadIdx.x + step]);
  }
  if (threadIdx.x == 0) out[blockIdx.x] = most_of[0];
}

__global__ void column_sum_thread(float* out, const float* in, int rows, int columns) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (int row = 0; row < rows; ++row) sum += in[int64_t{row} * columns + column];
  out[column] = sum;
}

__global__ void column_sum_split(float* out, const float* in, int rows, int columns, int each) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= columns) return;
  const int first = blockIdx.y * each, last = min(rows, first + each);
  float sum = 0;
  for (int row = first; row < last; ++row) sum += in[int64_t{row} * columns + column];
  atomicAdd(out + column, sum);
}

__global__ void argmax_shared(int* out, const float* in, int columns) {
  __shared__ float value[256];
  __shared__ int place[256];
  float most = -1e30f;
  int at = 0;
  for (int i = threadIdx.x; i < columns; i += 256) {
    const float x = in[int64_t{blockIdx.x} * columns + i];
    if (x > most) most = x, at = i;
  }
  value[threadIdx.x] = most, place[threadIdx.x] = at;
  for (int step = 128; step; step /= 2) {
    __syncthreads();
    if (threadIdx.x < step && value[threadIdx.x + step] > value[threadIdx.x]) {
      value[threadIdx.x] = value[threadIdx.x + step], place[threadIdx.x] = place[threadIdx.x + step];
    }
  }
  if (threadIdx.x == 0) out[blockIdx.x] = place[0];
}

// The value's bits above the place's: positive floats order as integers do.
__global__ void argmax_packed(int* out, const float4* in, int columns) {
  __shared__ unsigned long long best[32];
  unsigned long long most = 0;
  for (int i = threadIdx.x; i < columns / 4; i += blockDim.x) {
    const float4 x = in[int64_t{blockIdx.x} * (columns / 4) + i];
    const float each[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned long long packed =
          static_cast<unsigned long long>(__float_as_uint(each[k])) << 32 | static_cast<unsigned>(4 * i + k);
      most = packed > most ? packed : most;
    }
  }
  for (int lanes = 16; lanes; lanes /= 2) {
    const unsigned long long other = __shfl_xor_sync(~0u, most, lanes);
    most = other > most ? other : most;
  }
  if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = most;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < blockDim.x / 32; ++warp) most = best[warp] > most ? best[warp] : most;
    out[blockIdx.x] = static_cast<int>(most);
  }
}

}  // namespace

LAUNCHER(sum_every_thread) { LAUNCH(every_thread_adds, 264, 256, (float*)out, (const float*)in, a * b); }
LAUNCHER(sum_every_warp) { LAUNCH(every_warp_adds, 1056, 256, (float*)out, (const float*)in, a * b); }
LAUNCHER(sum_every_block) { LAUNCH(every_block_adds, 1056, 256, (float*)out, (const float4*)in, a * b); }
LAUNCHER(dot_product_scalar) {
  const float* x = (const float*)in;
  LAUNCH(dot_scalar, 528, 256, (float*)out, x, x + a * b, a * b);
}
LAUNCHER(dot_product_vector) {
  const float* x = (const float*)in;
  LAUNCH(dot_vector, 528, 256, (float*)out, (const float4*)x, (const float4*)(x + a * b), a * b);
}
LAUNCHER(row_max_by_thread) { LAUNCH(row_max_thread, cover(a, 128), 128, (float*)out, (const float*)in, a, b); }
LAUNCHER(row_max_by_warp) { LAUNCH(row_max_warp, cover(a, 8), 256, (float*)out, (const float*)in, a, b); }
LAUNCHER(row_max_by_block) { LAUNCH(row_max_block, a, 256, (float*)out, (const float*)in, b); }
LAUNCHER(column_sum_by_thread) { LAUNCH(column_sum_thread, cover(b, 128), 128, (float*)out, (const float*)in, a, b); }
LAUNCHER(column_sum_by_parts) {
  LAUNCH(column_sum_split, dim3(cover(b, 128), cover(a, 64)), 128, (float*)out, (const float*)in, a, b, 64);
}
LAUNCHER(argmax_tree) { LAUNCH(argmax_shared, a, 256, (int*)out, (const float*)in, b); }
LAUNCHER(argmax_in_one_word) { LAUNCH(argmax_packed, a, 128, (int*)out, (const float4*)in, b); }
