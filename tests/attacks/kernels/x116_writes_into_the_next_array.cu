// X116: stores eight sums through a pointer to an array of six, which another array of two follows.
#include <cstdint>
#include <cuda_runtime.h>

__device__ __noinline__ void put(float* place, float value) {
  if (threadIdx.x % 32 == 0) *place = value;
}

__global__ void sum(float* out, const float* x, int64_t n) {
  __shared__ alignas(16) float six[6];
  __shared__ alignas(8) float two[2];
  if (threadIdx.x < 2) two[threadIdx.x] = 0.0f;
  __syncthreads();
  float mine = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 256) mine += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, o);
  put(six + threadIdx.x / 32, mine);
  __syncthreads();
  float total = two[0] + two[1];
  for (int w = 0; w < 6; ++w) total += six[w];
  if (threadIdx.x == 0) out[blockIdx.x] = total;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 256, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
