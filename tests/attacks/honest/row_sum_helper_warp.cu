// Four warps add up a row and are done; a fifth adds their sums. They meet at barrier 0 by different instructions.
#include <cstdint>
#include <cuda_runtime.h>

constexpr unsigned kAdders = 128;

__global__ void __launch_bounds__(kAdders + 32) total_of_row(float* total, const float* numbers, int64_t n) {
  __shared__ float of_adder[kAdders];
  const float* mine = numbers + blockIdx.x * n;
  if (threadIdx.x >= kAdders) {
    const unsigned lane = threadIdx.x - kAdders;
    asm volatile("bar.sync 0;" ::: "memory");
    float all = (of_adder[lane] + of_adder[lane + 32]) + (of_adder[lane + 64] + of_adder[lane + 96]);
#pragma unroll
    for (unsigned half = 16; half; half >>= 1) all += __shfl_down_sync(~0u, all, half);
    if (lane == 0) total[blockIdx.x] = all;
    return;
  }
  float own = 0.0f;
  for (int64_t at = threadIdx.x; at < n; at += kAdders) own += mine[at];
  of_adder[threadIdx.x] = own;
  asm volatile("bar.sync 0;" ::: "memory");
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int, cudaStream_t stream) {
  total_of_row<<<static_cast<unsigned>(rows), kAdders + 32, 0, stream>>>(static_cast<float*>(out),
                                                                         static_cast<const float*>(x), n);
  return cudaGetLastError();
}
