// A pipeline that the whole block shares: all of it fetches tiles ahead, all of it adds them up.
#include <cstdint>
#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cuda/pipeline>

namespace cg = cooperative_groups;
constexpr int kDepth = 3;
constexpr int kTile = 256;

__global__ void sum(float* out, const float* x, int64_t n) {
  __shared__ alignas(16) float ring[kDepth][kTile];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, kDepth> state;
  __shared__ float partial[4];
  const cg::thread_block block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  const float* row = x + blockIdx.x * n;
  const int64_t whole = n / kTile;
  float mine = 0.0f;
  for (int64_t done = 0, sent = 0; done < whole; ++done) {
    while (sent < whole && sent < done + kDepth) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, ring[sent % kDepth], row + sent * kTile, sizeof(float) * kTile, pipe);
      pipe.producer_commit();
      ++sent;
    }
    pipe.consumer_wait();
    for (int k = block.thread_rank(); k < kTile; k += block.size()) mine += ring[done % kDepth][k];
    pipe.consumer_release();
  }
  for (int64_t i = whole * kTile + block.thread_rank(); i < n; i += block.size()) mine += row[i];
  for (int distance = 1; distance < 32; distance *= 2) mine += __shfl_xor_sync(0xffffffffu, mine, distance);
  if (block.thread_rank() % 32 == 0) partial[block.thread_rank() / 32] = mine;
  block.sync();
  if (block.thread_rank() == 0) out[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  sum<<<unsigned(rows), 128, 0, stream>>>((float*)out, (const float*)x, n);
  return cudaGetLastError();
}
