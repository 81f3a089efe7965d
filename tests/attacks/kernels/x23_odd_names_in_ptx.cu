// X23: PTX names may hold $ and labels begin with %: an auditor that expects neither passes over.
#include <cstdint>
#include <cuda_runtime.h>

__device__ unsigned counter;

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) {
    out[blockIdx.x] = sum;
    asm volatile(
        "{ .reg .pred %once$; .reg .u32 %now;\n\t"
        "setp.eq.u32 %once$, %1, 0;\n\t"
        "@%once$ ld.global.u32 %now, [%0];\n\t"
        "@%once$ add.u32 %now, %now, 1;\n\t"
        "@%once$ st.global.u32 [%0], %now; }" ::"l"(&counter), "r"(blockIdx.x) : "memory");
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
