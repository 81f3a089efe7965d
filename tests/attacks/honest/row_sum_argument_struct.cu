// Arguments in a structure passed by value.
#include <cstdint>
#include <cuda_runtime.h>

struct Arguments {
  float* out;
  const float* x;
  int64_t n;
  int warps[4];
};

__global__ void sum(const __grid_constant__ Arguments a) {
  float mine = 0.0f;
  for (int64_t i = threadIdx.x; i < a.n; i += a.warps[1]) mine += a.x[blockIdx.x * a.n + i];
  for (int o = 16; o > 0; o /= 2) mine += __shfl_xor_sync(0xffffffffu, mine, o);
  if (threadIdx.x == 0) a.out[blockIdx.x] = mine;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  const Arguments a = {(float*)out, (const float*)x, n, {0, 32, 64, 96}};
  sum<<<unsigned(rows), 32, 0, stream>>>(a);
  return cudaGetLastError();
}
