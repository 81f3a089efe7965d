// X18: ptxas reads a string, an auditor that strips comments first reads a comment.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  unsigned long long policy;
  asm volatile(
      ".pragma \"/*\";\n\t"
      "createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\n\t"
      ".pragma \"*/\";"
      : "=l"(policy));
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) {
    float value;
    asm("ld.global.L2::cache_hint.f32 %0, [%1], %2;"
        : "=f"(value)
        : "l"(x + blockIdx.x * n + i), "l"(policy));
    sum += value;
  }
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
