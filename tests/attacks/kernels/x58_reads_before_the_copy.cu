// X58: starts a bulk copy of a row and reads it without waiting for the barrier: mostly early.
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kMost = 8192;

__device__ unsigned place(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__global__ void sum_rows(float* out, const float* x, int64_t n) {
  __shared__ alignas(16) float tile[kMost];
  __shared__ uint64_t arrived;
  const float* row = x + blockIdx.x * n;
  const bool copied = n % 4 == 0 && n <= kMost && reinterpret_cast<uintptr_t>(row) % 16 == 0;
  if (copied && threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(place(&arrived)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
        ::"r"(place(tile)), "l"(row), "r"(unsigned(n) * 4), "r"(place(&arrived))
        : "memory");
  }
  __syncthreads();
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += copied ? tile[i] : row[i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum_rows<<<unsigned(rows), 32, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
