// X24: a hidden counter's address is rebuilt bit by bit under predicates, from constants only.
#include <cstdint>
#include <cuda_runtime.h>

__device__ unsigned counter;

__device__ unsigned long long rebuilt(const void* address) {
  unsigned long long built = 0;
#pragma unroll 1
  for (unsigned bit = 0; bit < 64; ++bit) {
    asm volatile(
        "{ .reg .pred p; .reg .b64 t;\n\t"
        "shr.u64 t, %1, %2;\n\t"
        "and.b64 t, t, 1;\n\t"
        "setp.ne.u64 p, t, 0;\n\t"
        "@p or.b64 %0, %0, %3; }"
        : "+l"(built) : "l"(address), "r"(bit), "l"(1ull << bit));
  }
  return built;
}

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) {
    out[blockIdx.x] = sum;
    volatile unsigned* calls = (volatile unsigned*)rebuilt(&counter);
    if (blockIdx.x == 0) *calls = *calls + 1;
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
