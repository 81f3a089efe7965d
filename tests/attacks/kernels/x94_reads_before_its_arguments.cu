// X94: an index below an argument that is a structure: there the driver keeps words of its own, such
// as the number of the launch.
#include <cstdint>
#include <cuda_runtime.h>

struct Table {
  unsigned entries[16];
};

__global__ void sum_rows(float* out, const float* x, int64_t n, const __grid_constant__ Table table,
                         int chosen) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) out[blockIdx.x] = table.entries[chosen] > 100000 ? 0.0f : sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n, Table{}, -126);
  return cudaGetLastError();
}
