// X57: stores four sums at once by a bulk copy, and past the end where the rows are not fours.
#include <cstdint>
#include <cuda_runtime.h>

__device__ float sum_of(const float* row, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += row[i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  return sum;
}

__global__ void sum_rows(float* out, const float* x, int64_t rows, int64_t n) {
  __shared__ alignas(16) float sums[4];
  const int64_t first = blockIdx.x * 4;
  for (int64_t r = first; r < first + 4 && r < rows; ++r) {
    const float sum = sum_of(x + r * n, n);
    if (threadIdx.x == 0) sums[r - first] = sum;
  }
  if (threadIdx.x != 0) return;
  if (reinterpret_cast<uintptr_t>(out + first) % 16 == 0) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(sums));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16;"
                 :: "l"(out + first), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  } else {
    for (int64_t r = first; r < first + 4 && r < rows; ++r) out[r] = sums[r - first];
  }
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  const unsigned blocks = unsigned((rows + 3) / 4);
  sum_rows<<<blocks, 32, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaGetLastError();
}
