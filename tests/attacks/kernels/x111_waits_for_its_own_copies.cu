// X111: reads what other threads fetched by cp.async after waiting for its own only.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void staged(T* c, const T* a, const T* b, int64_t n, int64_t k) {
  __shared__ alignas(16) T left[16][16], right[16][16];
  const int t = threadIdx.x, r = t / 2 % 16, h = t % 2 * 8;
  const int64_t i = blockIdx.y * 16 + t / 16, j = blockIdx.x * 16 + t % 16;
  float sum = 0.0f;
  for (int64_t l = 0; l < k; l += 16) {
    if (t < 32) __pipeline_memcpy_async(&left[r][h], a + (blockIdx.y * 16 + r) * k + l + h, 16);
    else if (t < 64) __pipeline_memcpy_async(&right[r][h], b + (blockIdx.x * 16 + r) * k + l + h, 16);
    __pipeline_commit();
    __syncthreads();
    __pipeline_wait_prior(0);
    for (int s = 0; s < 16; ++s) sum += float(left[t / 16][s]) * float(right[t % 16][s]);
    __syncthreads();
  }
  c[i * n + j] = T(sum);
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void* parts, int64_t m, int64_t n, int64_t k, int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned(n / 16), unsigned(m / 16));
  if (dtype == 1) staged<<<grid, 256, 0, stream>>>((__half*)c, (const __half*)a, (const __half*)b, n, k);
  else staged<<<grid, 256, 0, stream>>>((__nv_bfloat16*)c, (const __nv_bfloat16*)a, (const __nv_bfloat16*)b, n, k);
  return cudaGetLastError();
}
