// A warp an id: each counts all ids before its own, then places its own in their order, by votes.
// It uses no workspace.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 32;
constexpr unsigned kAll = 0xffffffffu;

template <typename I>
__global__ void an_expert(const I* __restrict__ topk_ids, int* __restrict__ sorted_token_ids,
                          int* __restrict__ expert_ids, int* __restrict__ num_tokens_post_pad,
                          int numel, int experts, int block_size, bool pad) {
  __shared__ int counts[1024];
  const int expert = blockIdx.x, lane = threadIdx.x;
  for (int index = lane; index < experts; index += kThreads) counts[index] = 0;
  __syncwarp();
  for (int place = lane; place < numel; place += kThreads) {
    atomicAdd(&counts[static_cast<int>(topk_ids[place]) + 1], 1);
  }
  __syncwarp();
  int start = 0;
  for (int index = lane; index < expert; index += kThreads) {
    start += (counts[index] + block_size - 1) / block_size * block_size;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) start += __shfl_xor_sync(kAll, start, lanes);
  const int whole = (counts[expert] + block_size - 1) / block_size * block_size;
  if (lane == 0 && expert == experts - 1) *num_tokens_post_pad = start + whole;
  for (int block = lane; block < whole / block_size; block += kThreads) {
    expert_ids[start / block_size + block] = expert - 1;
  }
  int slot = start;
  for (int first = 0; first < numel; first += kThreads) {
    const int place = first + lane;
    const bool own = place < numel && topk_ids[place] + 1 == expert;
    const unsigned votes = __ballot_sync(kAll, own);
    if (own) sorted_token_ids[slot + __popc(votes & ((1u << lane) - 1))] = place;
    slot += __popc(votes);
  }
  if (!pad) return;
  for (slot += lane; slot < start + whole; slot += kThreads) sorted_token_ids[slot] = numel;
}

template <typename I>
cudaError_t launch(const I* topk_ids, int* sorted_token_ids, int* expert_ids,
                   int* num_tokens_post_pad, int numel, int buckets, int block_size, bool pad,
                   cudaStream_t stream) {
  an_expert<I><<<buckets, kThreads, 0, stream>>>(topk_ids, sorted_token_ids, expert_ids,
                                                 num_tokens_post_pad, numel, buckets, block_size,
                                                 pad);
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
