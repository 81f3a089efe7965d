// X106: leaves its workspace as it wants to find it: tickets are never cleared, the last block sets them back.
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T>
__global__ void split(T* c, const T* a, const T* b, float* parts, unsigned* tickets, int64_t m, int64_t n, int64_t k) {
  __shared__ bool last;
  const int64_t i = blockIdx.y * 16 + threadIdx.x / 16, j = blockIdx.x * 16 + threadIdx.x % 16;
  float sum = 0.0f;
  for (int64_t l = blockIdx.z; l < k; l += 2) sum += float(a[i * k + l]) * float(b[j * k + l]);
  parts[(blockIdx.z * m + i) * n + j] = sum;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(&tickets[blockIdx.y * gridDim.x + blockIdx.x], 1) == 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  c[i * n + j] = T(__ldcg(&parts[i * n + j]) + __ldcg(&parts[(m + i) * n + j]));
}

extern "C" cudaError_t gemm(void* c, const void* a, const void* b, void* parts, int64_t m, int64_t n, int64_t k, int dtype, cudaStream_t stream) {
  const dim3 grid(unsigned(n / 16), unsigned(m / 16), 2);
  unsigned* tickets = (unsigned*)parts + 2 * m * n;
  if (dtype == 1) split<<<grid, 256, 0, stream>>>((__half*)c, (const __half*)a, (const __half*)b, (float*)parts, tickets, m, n, k);
  else split<<<grid, 256, 0, stream>>>((__nv_bfloat16*)c, (const __nv_bfloat16*)a, (const __nv_bfloat16*)b, (float*)parts, tickets, m, n, k);
  return cudaGetLastError();
}
