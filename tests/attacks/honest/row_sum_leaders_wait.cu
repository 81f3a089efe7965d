// A warp for each row, each with a piece of shared memory of its own: its leader fetches and awaits, __syncwarp() tells
// the others, and a second one says that all have read.
#include <cstdint>
#include <cuda_runtime.h>

namespace {
constexpr int kRows = 2, kFloats = 256;

struct Lane {
  unsigned flag, bytes;
  __device__ void ready() const { asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.proxy.async.shared::cta;" ::"r"(flag) : "memory"); }
  __device__ void ask(unsigned to, const float* from) const {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;\n"
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%2], [%3], %1, [%0];"
                 ::"r"(flag), "r"(bytes), "r"(to), "l"(from) : "memory");
  }
  __device__ void await(int turn) const {
    int done = 0;
    while (!done)
      asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p;\n}"
                   : "=r"(done) : "r"(flag), "r"(turn & 1) : "memory");
  }
};

__global__ void by_leaders(float* out, const float* x, int64_t rows, int64_t n) {
  __shared__ alignas(128) float held[kRows][kFloats];
  __shared__ uint64_t flags[kRows];
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int64_t r = int64_t(blockIdx.x) * kRows + warp;
  if (r >= rows) return;
  const Lane leader{unsigned(__cvta_generic_to_shared(&flags[warp])), kFloats * sizeof(float)};
  const float* from = x + r * n;
  if (lane == 0) leader.ready();
  __syncwarp();
  float total = 0.0f;
  int64_t at = 0;
  if ((uintptr_t)from % 16 == 0)
    for (int turn = 0; at + kFloats <= n; at += kFloats, ++turn) {
      if (lane == 0) {
        leader.ask(unsigned(__cvta_generic_to_shared(held[warp])), from + at);
        leader.await(turn);
      }
      __syncwarp();
      const float4* quads = reinterpret_cast<const float4*>(held[warp]);
      for (int q = lane; q < kFloats / 4; q += 32) total += (quads[q].x + quads[q].y) + (quads[q].z + quads[q].w);
      __syncwarp();
    }
  for (at += lane; at < n; at += 32) total += from[at];
  for (int apart = 1; apart < 32; apart *= 2) total += __shfl_xor_sync(0xffffffffu, total, apart);
  if (lane == 0) out[r] = total;
}
}  // namespace

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  by_leaders<<<unsigned((rows + kRows - 1) / kRows), 32 * kRows, 0, stream>>>((float*)out, (const float*)x, rows, n);
  return cudaGetLastError();
}
