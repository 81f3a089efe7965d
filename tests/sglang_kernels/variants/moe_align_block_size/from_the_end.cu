// One block: counts in shared memory, sums by warps, and each id's places from the end of its range
// backwards, padding among the first.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 1024;
constexpr unsigned kAll = 0xffffffffu;

template <typename I>
__global__ void backwards(const I* __restrict__ topk_ids, int* __restrict__ sorted_token_ids,
                          int* __restrict__ expert_ids, int* __restrict__ num_tokens_post_pad,
                          int numel, int block_size, bool pad) {
  __shared__ int ends[kThreads];
  __shared__ int of_warps[kThreads / 32];
  const int thread = threadIdx.x, lane = thread % 32;
  ends[thread] = 0;
  __syncthreads();
  for (int place = thread; place < numel; place += kThreads) {
    atomicAdd(&ends[static_cast<int>(topk_ids[place]) + 1], 1);
  }
  __syncthreads();
  const int whole = (ends[thread] + block_size - 1) / block_size * block_size;
  int end = whole;
  for (int lanes = 1; lanes < 32; lanes *= 2) {
    const int before = __shfl_up_sync(kAll, end, lanes);
    if (lane >= lanes) end += before;
  }
  if (lane == 31) of_warps[thread / 32] = end;
  __syncthreads();
  int total = 0;
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    if (warp < thread / 32) end += of_warps[warp];
    total += of_warps[warp];
  }
  ends[thread] = end;
  for (int slot = thread; slot < total && pad; slot += kThreads) sorted_token_ids[slot] = numel;
  for (int slot = end - whole; slot < end; slot += block_size) {
    expert_ids[slot / block_size] = thread - 1;
  }
  if (thread == 0) *num_tokens_post_pad = total;
  __syncthreads();
  for (int place = thread; place < numel; place += kThreads) {
    const int bucket = static_cast<int>(topk_ids[place]) + 1;
    sorted_token_ids[atomicSub(&ends[bucket], 1) - 1] = place;
  }
}

template <typename I>
cudaError_t launch(const I* topk_ids, int* sorted_token_ids, int* expert_ids,
                   int* num_tokens_post_pad, int numel, int, int block_size, bool pad,
                   cudaStream_t stream) {
  backwards<I><<<1, kThreads, 0, stream>>>(topk_ids, sorted_token_ids, expert_ids,
                                           num_tokens_post_pad, numel, block_size, pad);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids,
                                            void* expert_ids, void* num_tokens_post_pad,
                                            void*, int64_t tokens, int64_t topk,
                                            int64_t experts, int64_t block_size,
                                            bool pad_sorted_token_ids, int i_dtype,
                                            cudaStream_t stream) {
  const auto with = [&](auto ids) {
    return launch(ids, static_cast<int*>(sorted_token_ids), static_cast<int*>(expert_ids),
                  static_cast<int*>(num_tokens_post_pad), static_cast<int>(tokens * topk),
                  static_cast<int>(experts) + 1, static_cast<int>(block_size),
                  pad_sorted_token_ids, stream);
  };
  if (i_dtype == 7) return with(static_cast<const int32_t*>(topk_ids));
  return with(static_cast<const int64_t*>(topk_ids));
}
