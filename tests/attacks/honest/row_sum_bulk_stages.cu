// A warp fetches pieces of the row by bulk copies, four add them up: two stages, an mbarrier each way.
#include <cstdint>
#include <cuda_runtime.h>

constexpr int kPiece = 512, kStages = 2, kAdders = 4;
struct alignas(128) Room {
  float piece[kStages][kPiece];
  uint64_t filled[kStages], freed[kStages];
  float sums[kAdders];
};

__device__ unsigned in_shared(void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }
__device__ void await(uint64_t* flag, unsigned parity) {
  asm volatile(
      "{\n.reg .pred ready;\nTRY:\nmbarrier.try_wait.parity.shared::cta.b64 ready, [%0], %1;\n@!ready bra TRY;\n}"
      ::"r"(in_shared(flag)), "r"(parity) : "memory");
}

__device__ void produce(Room& room, const float* row, int64_t pieces) {
  for (int64_t p = 0; p < pieces; ++p) {
    const int stage = p % kStages;
    await(&room.freed[stage], ((p / kStages) & 1) ^ 1);
    const unsigned flag = in_shared(&room.filled[stage]);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(flag), "n"(kPiece * 4) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(in_shared(room.piece[stage])), "l"(row + p * kPiece), "n"(kPiece * 4), "r"(flag) : "memory");
  }
}

__device__ float consume(Room& room, int64_t pieces, int thread) {
  float total = 0.0f;
  for (int64_t p = 0; p < pieces; ++p) {
    const int stage = p % kStages;
    await(&room.filled[stage], (p / kStages) & 1);
    for (int i = thread; i < kPiece; i += 32 * kAdders) total += room.piece[stage][i];
    __syncwarp();
    if (thread % 32 == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(in_shared(&room.freed[stage])) : "memory");
  }
  return total;
}

__global__ void sum(float* out, const float* x, int64_t n) {
  __shared__ Room room;
  const float* row = x + blockIdx.x * n;
  const int64_t pieces = reinterpret_cast<uintptr_t>(row) % 16 ? 0 : n / kPiece;
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(in_shared(&room.filled[s])));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(in_shared(&room.freed[s])), "n"(kAdders));
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int adder = int(threadIdx.x) - 32;
  if (threadIdx.x == 0) produce(room, row, pieces);
  if (adder >= 0) {
    float mine = consume(room, pieces, adder);
    for (int64_t i = pieces * kPiece + adder; i < n; i += 32 * kAdders) mine += row[i];
    for (int o = 16; o; o >>= 1) mine += __shfl_down_sync(~0u, mine, o);
    if (adder % 32 == 0) room.sums[adder / 32] = mine;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = (room.sums[0] + room.sums[1]) + (room.sums[2] + room.sums[3]);
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 32 * (1 + kAdders), 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
