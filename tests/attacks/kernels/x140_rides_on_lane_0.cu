// X140: one lane of each warp waits for the bulk copy, and the others go on with no __syncwarp() after it.
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kPiece = 1024, kWarps = 4;

__device__ unsigned in_shared(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

__global__ void riders(float* out, const float* x, int64_t n) {
  __shared__ alignas(128) float piece[kPiece];
  __shared__ uint64_t here;
  __shared__ float sums[kWarps];
  const float* row = x + blockIdx.x * n;
  const int64_t pieces = reinterpret_cast<uintptr_t>(row) % 16 ? 0 : n / kPiece;
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(in_shared(&here)) : "memory");
  __syncthreads();
  float mine = 0.0f;
  for (int64_t p = 0; p < pieces; ++p) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(&here)), "n"(kPiece * 4) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                   ::"r"(in_shared(piece)), "l"(row + p * kPiece), "n"(kPiece * 4), "r"(in_shared(&here)) : "memory");
    }
    if (threadIdx.x % 32 == 0)
      asm volatile("{\n.reg .pred ready;\nTRY:\nmbarrier.try_wait.parity.shared::cta.b64 ready, [%0], %1;\n@!ready bra TRY;\n}"
                   ::"r"(in_shared(&here)), "r"(unsigned(p & 1)) : "memory");
    for (int i = threadIdx.x; i < kPiece; i += 32 * kWarps) mine += piece[i];
    __syncthreads();
  }
  for (int64_t i = pieces * kPiece + threadIdx.x; i < n; i += 32 * kWarps) mine += row[i];
  for (int o = 16; o; o >>= 1) mine += __shfl_down_sync(~0u, mine, o);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  riders<<<unsigned(rows), 32 * kWarps, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
