// X41: a variable of the device that only its PTX knows, declared between two functions.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void declares(float* out) {
  out[0] = 0.0f;
  asm volatile("ret; }\n\t.global .align 4 .u32 hidden;\n\t.func unused() {" ::: "memory");
}

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
  asm volatile(
      "{ .reg .u64 place; .reg .u32 old;\n\t"
      "mov.u64 place, hidden;\n\t"
      "atom.global.add.u32 old, [place], 1; }" ::: "memory");
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  if (rows < 0) declares<<<1, 1, 0, stream>>>((float*)out);
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
