// The same with relaxed loads and stores, which are no read-modify-write.
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
  const int64_t row = blockIdx.x / 2, half = blockIdx.x % 2, first = half ? n / 2 : 0, last = half ? n : n / 2;
  float sum = 0.0f;
  for (int64_t i = first + threadIdx.x; i < last; i += 256) sum += x[row * n + i];
  const float total = block_sum(sum);
  if (threadIdx.x == 0) {
    float old = 0.0f;
    if (half) asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(old) : "l"(out + row) : "memory");
    asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(out + row), "f"(old + total) : "memory");
  }
}
extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(2 * rows), 256, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
