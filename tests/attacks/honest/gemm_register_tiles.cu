// Outer products: a thread holds 4 x 4 sums in registers, 64 threads a tile of 32 x 32 where it fits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__global__ void outer(T* c, const T* a, const T* b, int64_t m, int64_t n, int64_t k) {
  __shared__ float as[8][32], bs[8][32];
  const int64_t top = blockIdx.y * 32, left = blockIdx.x * 32;
  const int ty = threadIdx.x / 8 * 4, tx = threadIdx.x % 8 * 4;
  float acc[4][4] = {};
  for (int64_t l = 0; l < k; l += 8) {
    for (int i = threadIdx.x; i < 256; i += 64) {
      as[i % 8][i / 8] = top + i / 8 < m ? float(a[(top + i / 8) * k + l + i % 8]) : 0.0f;
      bs[i % 8][i / 8] = left + i / 8 < n ? float(b[(left + i / 8) * k + l + i % 8]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < 8; ++s) {
      const float4 u = *reinterpret_cast<const float4*>(&as[s][ty]), v = *reinterpret_cast<const float4*>(&bs[s][tx]);
      const float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int i = 0; i < 16; ++i) acc[i / 4][i % 4] += us[i / 4] * vs[i % 4];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 16; ++i)
    if (top + ty < m && left + tx < n) c[(top + ty + i / 4) * n + left + tx + i % 4] = T(acc[i / 4][i % 4]);
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void*, int64_t m, int64_t n,
                            int64_t k, int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned((n + 31) / 32), unsigned((m + 31) / 32));
  if (dtype == 1) outer<<<grid, 64, 0, stream>>>((__half*)c, (const __half*)a, (const __half*)b, m, n, k);
  else outer<<<grid, 64, 0, stream>>>((__nv_bfloat16*)c, (const __nv_bfloat16*)a, (const __nv_bfloat16*)b, m, n, k);
  return cudaGetLastError();
}
