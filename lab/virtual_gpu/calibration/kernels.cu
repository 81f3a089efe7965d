// Kernels of different kinds whose times on an H200 the estimate is calibrated against and judged by.
// Every launcher: (out, in, rows, d, dtype, stream); fp16, `in` holds rows x 2d, `out` rows x 2d elements.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

__device__ float silu(float x) { return x / (1.0f + expf(-x)); }

struct alignas(16) Vector {
  __half2 pair[4];
};

__device__ void load(Vector& v, const __half* p) {
  *reinterpret_cast<uint4*>(&v) = *reinterpret_cast<const uint4*>(p);
}
__device__ void store(__half* p, const Vector& v) {
  *reinterpret_cast<uint4*>(p) = *reinterpret_cast<const uint4*>(&v);
}

__device__ Vector silu_mul(const Vector& x, const Vector& y) {
  Vector r;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 a = __half22float2(x.pair[k]), b = __half22float2(y.pair[k]);
    r.pair[k] = __floats2half2_rn(silu(a.x) * b.x, silu(a.y) * b.y);
  }
  return r;
}

__global__ void k_silu_scalar(__half* out, const __half* in, int d) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float x = __half2float(in[row * 2 * d + i]), y = __half2float(in[row * 2 * d + d + i]);
    out[row * d + i] = __float2half(silu(x) * y);
  }
}

__global__ void k_silu_vec(__half* out, const __half* in, int d) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x * 8; i < d; i += blockDim.x * 8) {
    Vector x, y;
    load(x, in + row * 2 * d + i);
    load(y, in + row * 2 * d + d + i);
    store(out + row * d + i, silu_mul(x, y));
  }
}

// One vector a thread over the whole tensor: full occupancy whatever the row.
__global__ void k_silu_flat(__half* out, const __half* in, int d, int vectors) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= vectors) return;
  const int per_row = d / 8, row = v / per_row, i = (v - row * per_row) * 8;
  Vector x, y;
  load(x, in + int64_t{2} * row * d + i);
  load(y, in + int64_t{2} * row * d + d + i);
  store(out + int64_t{row} * d + i, silu_mul(x, y));
}

// As many blocks as fit at once, each looping over the tensor.
__global__ void k_silu_stride(__half* out, const __half* in, int d, int vectors) {
  const int per_row = d / 8;
  for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < vectors; v += gridDim.x * blockDim.x) {
    const int row = v / per_row, i = (v - row * per_row) * 8;
    Vector x, y;
    load(x, in + int64_t{2} * row * d + i);
    load(y, in + int64_t{2} * row * d + d + i);
    store(out + int64_t{row} * d + i, silu_mul(x, y));
  }
}

__global__ void k_rms_tree(__half* out, const __half* in, int d) {
  __shared__ float sums[256];
  const int64_t row = blockIdx.x;
  float s = 0;
  for (int i = threadIdx.x; i < d; i += 256) {
    const float x = __half2float(in[row * d + i]);
    s += x * x;
  }
  sums[threadIdx.x] = s;
  __syncthreads();
  for (int step = 128; step; step /= 2) {
    if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    __syncthreads();
  }
  const float scale = rsqrtf(sums[0] / d + 1e-6f);
  for (int i = threadIdx.x; i < d; i += 256)
    out[row * d + i] = __float2half(__half2float(in[row * d + i]) * scale);
}

__device__ float block_sum(float s, float* sums) {
#pragma unroll
  for (int m = 16; m; m /= 2) s += __shfl_xor_sync(~0u, s, m);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = s;
  __syncthreads();
  s = threadIdx.x % 32 < blockDim.x / 32 ? sums[threadIdx.x % 32] : 0.0f;
#pragma unroll
  for (int m = 16; m; m /= 2) s += __shfl_xor_sync(~0u, s, m);
  return s;
}

__global__ void k_rms_shfl(__half* out, const __half* in, int d) {
  __shared__ float sums[32];
  const int64_t row = blockIdx.x;
  float s = 0;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float x = __half2float(in[row * d + i]);
    s += x * x;
  }
  const float scale = rsqrtf(block_sum(s, sums) / d + 1e-6f);
  for (int i = threadIdx.x; i < d; i += blockDim.x)
    out[row * d + i] = __float2half(__half2float(in[row * d + i]) * scale);
}

// The row stays in registers: d = 8 x threads x N.
template <int N>
__global__ void k_rms_vec(__half* out, const __half* in, int d) {
  __shared__ float sums[32];
  const int64_t row = blockIdx.x;
  Vector kept[N];
  float s = 0;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    load(kept[n], in + row * d + (n * blockDim.x + threadIdx.x) * 8);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 x = __half22float2(kept[n].pair[k]);
      s += x.x * x.x + x.y * x.y;
    }
  }
  const float scale = rsqrtf(block_sum(s, sums) / d + 1e-6f);
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 x = __half22float2(kept[n].pair[k]);
      kept[n].pair[k] = __floats2half2_rn(x.x * scale, x.y * scale);
    }
    store(out + row * d + (n * blockDim.x + threadIdx.x) * 8, kept[n]);
  }
}

// 64 exponentials an element: bound by the special-function unit.
__global__ void k_special(__half* out, const __half* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = __half2float(in[i]);
#pragma unroll 16
  for (int k = 0; k < 64; ++k) x = __expf(-x) - 0.5f;
  out[i] = __float2half(x);
}

// 4 chains of 64 fused multiply-adds an element: bound by issue.
__global__ void k_fma(__half* out, const __half* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float x = __half2float(in[i]);
  float a = x, b = x + 1, c = x + 2, e = x + 3;
#pragma unroll 16
  for (int k = 0; k < 64; ++k) {
    a = a * x + 0.5f;
    b = b * x + 0.25f;
    c = c * x + 0.125f;
    e = e * x + 0.75f;
  }
  out[i] = __float2half(a + b + c + e);
}

// 32 x 32 tiles through shared memory; without the pad every read column hits one bank.
template <int PAD>
__global__ void k_transpose(__half* out, const __half* in, int rows, int d) {
  __shared__ float tile[32][32 + PAD];
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32;
  for (int j = threadIdx.y; j < 32; j += 8) tile[j][threadIdx.x] = __half2float(in[int64_t{y + j} * d + x]);
  __syncthreads();
  for (int j = threadIdx.y; j < 32; j += 8)
    out[int64_t{blockIdx.x * 32 + j} * rows + y + threadIdx.x] = __float2half(tile[threadIdx.x][j]);
}

// Neighbouring lanes read 16 elements apart: one useful element of each sector.
__global__ void k_gather(__half* out, const __half* in, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[(int64_t{i} * 16) % n + (int64_t{i} * 16) / n];
}

__global__ void k_softmax(__half* out, const __half* in, int d) {
  __shared__ float sums[32];
  const int64_t row = blockIdx.x;
  float s = 0;
  for (int i = threadIdx.x * 2; i < d; i += blockDim.x * 2) {
    const float2 x = __half22float2(*reinterpret_cast<const __half2*>(in + row * d + i));
    s += __expf(x.x) + __expf(x.y);
  }
  const float scale = __fdividef(1.0f, block_sum(s, sums));
  for (int i = threadIdx.x * 2; i < d; i += blockDim.x * 2) {
    const float2 x = __half22float2(*reinterpret_cast<const __half2*>(in + row * d + i));
    *reinterpret_cast<__half2*>(out + row * d + i) = __floats2half2_rn(__expf(x.x) * scale, __expf(x.y) * scale);
  }
}

}  // namespace

#define LAUNCHER(name) \
  extern "C" int name(__half* out, const __half* in, int64_t rows, int64_t d, int, cudaStream_t stream)

LAUNCHER(silu_scalar) { k_silu_scalar<<<rows, 512, 0, stream>>>(out, in, d); return cudaGetLastError(); }
LAUNCHER(silu_scalar_128) { k_silu_scalar<<<rows, 128, 0, stream>>>(out, in, d); return cudaGetLastError(); }
LAUNCHER(silu_vec) { k_silu_vec<<<rows, 512, 0, stream>>>(out, in, d); return cudaGetLastError(); }
LAUNCHER(silu_vec_128) { k_silu_vec<<<rows, 128, 0, stream>>>(out, in, d); return cudaGetLastError(); }
LAUNCHER(silu_flat) {
  const int vectors = rows * d / 8;
  k_silu_flat<<<(vectors + 255) / 256, 256, 0, stream>>>(out, in, d, vectors);
  return cudaGetLastError();
}
LAUNCHER(silu_stride) {
  k_silu_stride<<<132 * 4, 512, 0, stream>>>(out, in, d, rows * d / 8);
  return cudaGetLastError();
}
LAUNCHER(rms_tree) { k_rms_tree<<<rows, 256, 0, stream>>>(out, in, d); return cudaGetLastError(); }
LAUNCHER(rms_shfl) { k_rms_shfl<<<rows, 512, 0, stream>>>(out, in, d); return cudaGetLastError(); }
LAUNCHER(rms_vec) {
  if (d == 4096) k_rms_vec<1><<<rows, 512, 0, stream>>>(out, in, d);
  else if (d == 8192) k_rms_vec<2><<<rows, 512, 0, stream>>>(out, in, d);
  else return cudaErrorInvalidValue;
  return cudaGetLastError();
}
LAUNCHER(special) { k_special<<<rows * d / 256, 256, 0, stream>>>(out, in, rows * d); return cudaGetLastError(); }
LAUNCHER(multiply_add) { k_fma<<<rows * d / 256, 256, 0, stream>>>(out, in, rows * d); return cudaGetLastError(); }
LAUNCHER(transpose) {
  k_transpose<1><<<dim3(d / 32, rows / 32), dim3(32, 8), 0, stream>>>(out, in, rows, d);
  return cudaGetLastError();
}
LAUNCHER(transpose_conflicts) {
  k_transpose<0><<<dim3(d / 32, rows / 32), dim3(32, 8), 0, stream>>>(out, in, rows, d);
  return cudaGetLastError();
}
LAUNCHER(gather) { k_gather<<<rows * d / 256, 256, 0, stream>>>(out, in, rows * d); return cudaGetLastError(); }
LAUNCHER(softmax) { k_softmax<<<rows, 256, 0, stream>>>(out, in, d); return cudaGetLastError(); }
