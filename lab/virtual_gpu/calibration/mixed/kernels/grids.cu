// Stencils: a step of heat in a plane and in a volume, and the short causal convolution of state-space models.
#include "common.cuh"

namespace {

// ---- heat in a plane: fp32 [a, b] to fp32 [a, b]; the edge stays ----

__global__ void plane_each(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  const int64_t at = int64_t{y} * columns + x;
  const float c = in[at];
  float result = c;
  if (x > 0 && y > 0 && x < columns - 1 && y < rows - 1)
    result = c + 0.1f * (in[at - 1] + in[at + 1] + in[at - columns] + in[at + columns] - 4.0f * c);
  out[at] = result;
}

// 64 x 16 in shared memory with its rim.
__global__ void __launch_bounds__(256) plane_tile(float* out, const float* in, int rows, int columns) {
  __shared__ float tile[18][66];
  const int left = blockIdx.x * 64 - 1, top = blockIdx.y * 16 - 1, t = threadIdx.y * 64 + threadIdx.x;
  for (int i = t; i < 18 * 66; i += 256) {
    const int x = left + i % 66, y = top + i / 66;
    tile[i / 66][i % 66] = x >= 0 && y >= 0 && x < columns && y < rows ? in[int64_t{y} * columns + x] : 0.0f;
  }
  __syncthreads();
  const int x = left + 1 + threadIdx.x, i = threadIdx.x + 1;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int j = threadIdx.y + 4 * k + 1, y = top + j;
    const float c = tile[j][i];
    const bool inside = x > 0 && y > 0 && x < columns - 1 && y < rows - 1;
    const float change = 0.1f * (tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i] - 4.0f * c);
    out[int64_t{y} * columns + x] = inside ? c + change : c;
  }
}

// A thread goes down a strip of 32 rows; what is above and below it keeps in registers.
__global__ void plane_march(float* out, const float* in, int rows, int columns) {
  const int x = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * 32;
  const int left = max(x - 1, 0), right = min(x + 1, columns - 1);
  const bool within = x > 0 && x < columns - 1;
  const float* row = in + int64_t{first} * columns;
  float above = first ? row[x - columns] : 0.0f, c = row[x];
#pragma unroll 4
  for (int y = first; y < first + 32; ++y, row += columns) {
    const float below = y < rows - 1 ? row[columns + x] : 0.0f;
    const float change = 0.1f * (row[left] + row[right] + above + below - 4.0f * c);
    out[int64_t{y} * columns + x] = within && y > 0 && y < rows - 1 ? c + change : c;
    above = c, c = below;
  }
}

// ---- heat in a volume: fp32 [a, b, b] to fp32 [a, b, b]; the edge stays ----

__global__ void volume_each(float* out, const float* in, int planes, int side) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z;
  const int plane = side * side, at = z * plane + y * side + x;
  const float c = in[at];
  const bool inside = x > 0 && y > 0 && z > 0 && x < side - 1 && y < side - 1 && z < planes - 1;
  float result = c;
  if (inside)
    result = c + 0.1f * (in[at - 1] + in[at + 1] + in[at - side] + in[at + side] + in[at - plane] + in[at + plane] - 6.0f * c);
  out[at] = result;
}

// A block goes through eight planes; the present one is in shared memory, its neighbours in registers.
__global__ void volume_march(float* out, const float* in, int planes, int side) {
  __shared__ float tile[10][34];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, first = blockIdx.z * 8;
  const int plane = side * side, i = threadIdx.x + 1, j = threadIdx.y + 1;
  const bool within = x > 0 && y > 0 && x < side - 1 && y < side - 1;
  int at = first * plane + y * side + x;
  float behind = first ? in[at - plane] : 0.0f, c = in[at];
  for (int z = first; z < first + 8; ++z, at += plane) {
    const float ahead = z < planes - 1 ? in[at + plane] : 0.0f;
    tile[j][i] = c;
    if (threadIdx.x == 0 && x > 0) tile[j][0] = in[at - 1];
    if (threadIdx.x == 31 && x < side - 1) tile[j][33] = in[at + 1];
    if (threadIdx.y == 0 && y > 0) tile[0][i] = in[at - side];
    if (threadIdx.y == 7 && y < side - 1) tile[9][i] = in[at + side];
    __syncthreads();
    float result = c;
    if (within && z > 0 && z < planes - 1)
      result = c + 0.1f * (tile[j][i - 1] + tile[j][i + 1] + tile[j - 1][i] + tile[j + 1][i] + behind + ahead - 6.0f * c);
    out[at] = result;
    __syncthreads();
    behind = c, c = ahead;
  }
}

// ---- causal convolution of four taps and silu: weights bf16 [a, 4], then bf16 [a channels, b steps] to the same ----

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

__global__ void time_each(bf16* out, const bf16* weights, const bf16* in, int steps) {
  const int t = blockIdx.x * 256 + threadIdx.x, channel = blockIdx.y;
  const bf16* row = in + int64_t{channel} * steps;
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (t + k >= 3) sum += __bfloat162float(weights[channel * 4 + k]) * __bfloat162float(row[t + k - 3]);
  out[int64_t{channel} * steps + t] = __float2bfloat16(silu(sum));
}

// Eight steps a thread; the three before them come from the vector before.
__global__ void time_eights(uint4* out, const bf162* weights, const uint4* in, int vectors) {
  const int v = blockIdx.x * 128 + threadIdx.x, channel = blockIdx.y;
  const uint4* row = in + int64_t{channel} * vectors;
  const float2 w01 = __bfloat1622float2(weights[channel * 2]), w23 = __bfloat1622float2(weights[channel * 2 + 1]);
  const Eight now{row[v]}, before{v ? row[v - 1] : make_uint4(0, 0, 0, 0)};
  float x[12];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 f = __bfloat1622float2(now.pair[k]);
    x[4 + 2 * k] = f.x, x[5 + 2 * k] = f.y;
  }
#pragma unroll
  for (int k = 2; k < 4; ++k) {
    const float2 f = __bfloat1622float2(before.pair[k]);
    x[2 * k - 4] = f.x, x[2 * k - 3] = f.y;
  }
  Eight result;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float y[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float* p = x + 2 * k + h + 1;
      y[h] = silu(w01.x * p[0] + w01.y * p[1] + w23.x * p[2] + w23.y * p[3]);
    }
    result.pair[k] = __floats2bfloat162_rn(y[0], y[1]);
  }
  out[int64_t{channel} * vectors + v] = result.raw;
}

// 1,024 steps of a channel and the three before them in shared memory.
__global__ void __launch_bounds__(256) time_shared(bf16* out, const bf16* weights, const bf16* in, int steps) {
  __shared__ float x[1024 + 3];
  const int first = blockIdx.x * 1024, channel = blockIdx.y;
  const bf16* row = in + int64_t{channel} * steps;
  for (int i = threadIdx.x; i < 1024 + 3; i += 256)
    x[i] = first + i >= 3 ? __bfloat162float(row[first + i - 3]) : 0.0f;
  float w[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) w[k] = __bfloat162float(weights[channel * 4 + k]);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = threadIdx.x + 256 * k;
    const float sum = w[0] * x[i] + w[1] * x[i + 1] + w[2] * x[i + 2] + w[3] * x[i + 3];
    out[int64_t{channel} * steps + first + i] = __float2bfloat16(silu(sum));
  }
}

}  // namespace

LAUNCHER(heat_plane_each) {
  plane_each<<<dim3(b / 32, a / 8), dim3(32, 8), 0, stream>>>((float*)out, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(heat_plane_tile) {
  plane_tile<<<dim3(b / 64, a / 16), dim3(64, 4), 0, stream>>>((float*)out, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(heat_plane_march) {
  plane_march<<<dim3(b / 128, a / 32), 128, 0, stream>>>((float*)out, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(heat_volume_each) {
  volume_each<<<dim3(b / 32, b / 8, a), dim3(32, 8), 0, stream>>>((float*)out, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(heat_volume_march) {
  volume_march<<<dim3(b / 32, b / 8, a / 8), dim3(32, 8), 0, stream>>>((float*)out, (const float*)in, a, b);
  return cudaGetLastError();
}
LAUNCHER(causal_taps_each) {
  time_each<<<dim3(b / 256, a), 256, 0, stream>>>((bf16*)out, (const bf16*)in, (const bf16*)in + 4 * a, b);
  return cudaGetLastError();
}
LAUNCHER(causal_taps_eights) {
  time_eights<<<dim3(b / 1024, a), 128, 0, stream>>>((uint4*)out, (const bf162*)in, (const uint4*)((const bf16*)in + 4 * a), b / 8);
  return cudaGetLastError();
}
LAUNCHER(causal_taps_shared) {
  time_shared<<<dim3(b / 1024, a), 256, 0, stream>>>((bf16*)out, (const bf16*)in, (const bf16*)in + 4 * a, b);
  return cudaGetLastError();
}
