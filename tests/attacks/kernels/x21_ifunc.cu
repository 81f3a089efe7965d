// X21: an indirect function, whose resolver the loader calls; a macro keeps its attribute apart.
#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#define ATTRIBUTE __attribute__

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

static unsigned width() { return 32; }
extern "C" {
static unsigned (*resolve())() { return width; }
static unsigned threads() ATTRIBUTE((ifunc("resolve")));
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), threads(), 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
