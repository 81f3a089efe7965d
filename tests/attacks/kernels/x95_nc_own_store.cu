// Reads by ld.global.nc what another thread of the block stored in the same launch.
#include <cstdint>
#include <cuda_runtime.h>
__device__ float block_sum(float sum) {
  __shared__ float partial[8];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  float total = 0.0f;
  for (int w = 0; w < 8; ++w) total += partial[w];
  __syncthreads();
  return total;
}

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 256) sum += x[blockIdx.x * n + i];
  const float total = block_sum(sum);
  if (threadIdx.x == 0) out[blockIdx.x] = total * 0.5f;
  __syncthreads();
  if (threadIdx.x == 32) {
    float half;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(half) : "l"(out + blockIdx.x) : "memory");
    out[blockIdx.x] = half * 2.0f;
  }
}
extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 256, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
