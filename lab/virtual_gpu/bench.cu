// Kernels that `python -m lab.virtual_gpu bench` times: rows of bfloat16.
#include <cuda_bf16.h>

extern "C" __global__ void silu_scalar(__nv_bfloat16 *out, const __nv_bfloat16 *in, int n) {
  const __nv_bfloat16 *row = in + (size_t)blockIdx.x * 2 * n;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float x = __bfloat162float(row[i]);
    out[(size_t)blockIdx.x * n + i] =
        __float2bfloat16(x / (1.0f + expf(-x)) * __bfloat162float(row[n + i]));
  }
}

extern "C" __global__ void silu_vector(__nv_bfloat16 *out, const __nv_bfloat16 *in, int n) {
  const uint4 *x = (const uint4 *)(in + (size_t)blockIdx.x * 2 * n), *y = x + n / 8;
  uint4 *to = (uint4 *)(out + (size_t)blockIdx.x * n);
  for (int i = threadIdx.x; i < n / 8; i += blockDim.x) {
    uint4 a = x[i], b = y[i], c;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float2 p = __bfloat1622float2(((__nv_bfloat162 *)&a)[k]);
      const float2 q = __bfloat1622float2(((__nv_bfloat162 *)&b)[k]);
      ((__nv_bfloat162 *)&c)[k] = __floats2bfloat162_rn(
          __fdividef(p.x, 1.0f + __expf(-p.x)) * q.x, __fdividef(p.y, 1.0f + __expf(-p.y)) * q.y);
    }
    to[i] = c;
  }
}

extern "C" __global__ void rmsnorm(__nv_bfloat16 *out, const __nv_bfloat16 *in, int n) {
  __shared__ float part[32];
  const __nv_bfloat16 *row = in + (size_t)blockIdx.x * 2 * n;
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const float x = __bfloat162float(row[i]);
    sum += x * x;
  }
  for (int m = 16; m > 0; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.0f;
    for (int m = 16; m > 0; m /= 2) sum += __shfl_xor_sync(~0u, sum, m);
    if (threadIdx.x == 0) part[0] = rsqrtf(sum / n + 1e-6f);
  }
  __syncthreads();
  const float scale = part[0];
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[(size_t)blockIdx.x * n + i] = __float2bfloat16(__bfloat162float(row[i]) * scale);
}
