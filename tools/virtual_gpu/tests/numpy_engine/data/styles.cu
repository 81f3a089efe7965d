// silu_and_mul in the styles that people write: input [tokens, 2d], out [tokens, d].
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

using bf16 = __nv_bfloat16;
using bf162 = __nv_bfloat162;

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float widen(bf16 x) { return __bfloat162float(x); }
template <typename T> __device__ T narrow(float x);
template <> __device__ __forceinline__ float narrow(float x) { return x; }
template <> __device__ __forceinline__ __half narrow(float x) { return __float2half_rn(x); }
template <> __device__ __forceinline__ bf16 narrow(float x) { return __float2bfloat16_rn(x); }

__device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }
__device__ __forceinline__ float fast_silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

template <typename T>
__device__ __forceinline__ void scalar(T *out, const T *in, int d) {
  const int64_t token = blockIdx.x;
  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {
    const float x = widen(__ldg(&in[token * 2 * d + i]));
    const float y = widen(__ldg(&in[token * 2 * d + d + i]));
    out[token * d + i] = narrow<T>(silu(x) * y);
  }
}
extern "C" __global__ void scalar_bf16(bf16 *out, const bf16 *in, int d) { scalar(out, in, d); }
extern "C" __global__ void scalar_f16(__half *out, const __half *in, int d) { scalar(out, in, d); }
extern "C" __global__ void scalar_f32(float *out, const float *in, int d) { scalar(out, in, d); }

template <typename T, int N> struct alignas(N * sizeof(T)) Pack { T v[N]; };

template <typename T>
__device__ __forceinline__ void vector(T *__restrict__ out, const T *__restrict__ in, int d) {
  constexpr int N = 16 / sizeof(T);
  using P = Pack<T, N>;
  const int64_t token = blockIdx.x;
  const P *gate = reinterpret_cast<const P *>(in + token * 2 * d);
  const P *up = reinterpret_cast<const P *>(in + token * 2 * d + d);
  P *target = reinterpret_cast<P *>(out + token * d);
#pragma unroll 2
  for (int i = threadIdx.x; i < d / N; i += blockDim.x) {
    const P a = gate[i], b = up[i];
    P r;
#pragma unroll
    for (int k = 0; k < N; ++k) r.v[k] = narrow<T>(fast_silu(widen(a.v[k])) * widen(b.v[k]));
    target[i] = r;
  }
}
extern "C" __global__ __launch_bounds__(512) void vector_bf16(bf16 *__restrict__ out,
                                                              const bf16 *__restrict__ in, int d) {
  vector(out, in, d);
}
extern "C" __global__ void vector_f16(__half *out, const __half *in, int d) { vector(out, in, d); }
extern "C" __global__ void vector_f32(float *out, const float *in, int d) { vector(out, in, d); }

// Streaming loads and stores through uint4, two bf16 at a time.
extern "C" __global__ void pairs_bf16(bf16 *out, const bf16 *in, int d) {
  const uint4 *gate = reinterpret_cast<const uint4 *>(in + (size_t)blockIdx.x * 2 * d);
  const uint4 *up = gate + d / 8;
  uint4 *target = reinterpret_cast<uint4 *>(out + (size_t)blockIdx.x * d);
  for (int i = threadIdx.x; i < d / 8; i += blockDim.x) {
    uint4 a = __ldcs(gate + i), b = __ldcg(up + i), r;
    const bf162 *x = reinterpret_cast<const bf162 *>(&a), *y = reinterpret_cast<const bf162 *>(&b);
    bf162 *z = reinterpret_cast<bf162 *>(&r);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 f = __bfloat1622float2(x[k]);
      const bf162 s = __floats2bfloat162_rn(fast_silu(f.x), fast_silu(f.y));
      z[k] = __hmul2(s, y[k]);
    }
    __stcs(target + i, r);
  }
}

// Arithmetic in half2 throughout.
extern "C" __global__ void half2_f16(__half2 *out, const __half2 *in, int d) {
  const __half2 one = __float2half2_rn(1.0f);
  const __half2 *gate = in + (size_t)blockIdx.x * d, *up = gate + d / 2;
  for (int i = threadIdx.x; i < d / 2; i += blockDim.x) {
    const __half2 x = gate[i];
    out[(size_t)blockIdx.x * (d / 2) + i] =
        __hmul2(__h2div(x, __hadd2(one, h2exp(__hneg2(x)))), up[i]);
  }
}
extern "C" __global__ void bfloat2_bf16(bf162 *out, const bf162 *in, int d) {
  const bf162 one = __float2bfloat162_rn(1.0f);
  const bf162 *gate = in + (size_t)blockIdx.x * d, *up = gate + d / 2;
  for (int i = threadIdx.x; i < d / 2; i += blockDim.x) {
    const bf162 x = gate[i];
    out[(size_t)blockIdx.x * (d / 2) + i] =
        __hmul2(__hmul2(x, h2rcp(__hadd2(one, h2exp(__hneg2(x))))), up[i]);
  }
}

// One flat index, 64 bits, grid-stride, division to find the token.
extern "C" __global__ void flat_f16(__half *out, const __half *in, int64_t tokens, int64_t d) {
  __builtin_assume(d > 0);
  const int64_t stride = (int64_t)gridDim.x * blockDim.x;
  for (int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; n < tokens * d; n += stride) {
    const int64_t token = n / d, i = n % d;
    const float x = widen(in[token * 2 * d + i]), y = widen(in[token * 2 * d + d + i]);
    out[n] = narrow<__half>(silu(x) * y);
  }
}

// Early return, two-dimensional blocks.
extern "C" __global__ void early_f32(float *out, const float *in, int tokens, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= d || token >= tokens) return;
  const float x = in[(size_t)token * 2 * d + i];
  if (x == 0.0f) { out[(size_t)token * d + i] = 0.0f; return; }
  out[(size_t)token * d + i] = silu(x) * in[(size_t)token * 2 * d + d + i];
}

// Staged through shared memory, static and dynamic.
extern "C" __global__ void staged_bf16(bf16 *out, const bf16 *in, int d) {
  __shared__ float tile[256];
  extern __shared__ float dynamic[];
  for (int base = 0; base < d; base += blockDim.x) {
    const int i = base + threadIdx.x;
    tile[threadIdx.x] = i < d ? widen(in[(size_t)blockIdx.x * 2 * d + i]) : 0.0f;
    dynamic[threadIdx.x] = i < d ? widen(in[(size_t)blockIdx.x * 2 * d + d + i]) : 0.0f;
    __syncthreads();
    const int other = blockDim.x - 1 - threadIdx.x;
    if (base + other < d)
      out[(size_t)blockIdx.x * d + base + other] = narrow<bf16>(silu(tile[other]) * dynamic[other]);
    __syncthreads();
  }
}

// Whole-precision helpers: double, tanh form, noinline calls, a structure by value.
struct Shape { int tokens, d; float scale; };
__device__ __noinline__ float gate_of(float x) { return 0.5f * x * (1.0f + tanhf(0.5f * x)); }
extern "C" __global__ void tanh_f32(float *out, const float *in, Shape shape) {
  const int d = shape.d;
  for (int n = blockIdx.x * blockDim.x + threadIdx.x; n < shape.tokens * d;
       n += gridDim.x * blockDim.x) {
    const int token = n / d, i = n % d;
    out[n] = gate_of(in[token * 2 * d + i]) * in[token * 2 * d + d + i] * shape.scale;
  }
}
extern "C" __global__ void double_f32(float *out, const float *in, int d) {
  const int token = blockIdx.x;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const double x = in[token * 2 * d + i];
    out[token * d + i] = (float)(x / (1.0 + exp(-x)) * in[token * 2 * d + d + i]);
  }
}
