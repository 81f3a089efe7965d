// Inline PTX: loads past L1 and a shuffle with its predicate.
#include <cstdint>
#include <cuda_runtime.h>

__device__ float load(const float* p) {
  float v;
  asm volatile("ld.global.nc.L1::no_allocate.f32 %0, [%1];" : "=f"(v) : "l"(p));
  return v;
}

__device__ float partner(float v, int o) {
  float got;
  asm("shfl.sync.bfly.b32 %0, %1, %2, 31, -1;" : "=f"(got) : "f"(v), "r"(o));
  return got;
}

__global__ void sum(float* out, const float* x, int64_t n) {
  float mine = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) mine += load(x + blockIdx.x * n + i);
  for (int o = 16; o > 0; o /= 2) mine += partner(mine, o);
  if (threadIdx.x == 0) out[blockIdx.x] = mine;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
