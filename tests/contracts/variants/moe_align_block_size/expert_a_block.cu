// A block of threads an expert: each counts all experts before its own, then places its own tokens in
// their order, by the votes of a warp. It uses no workspace.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 32;
constexpr unsigned kAll = 0xffffffffu;

template <typename I>
__global__ void an_expert(const I* __restrict__ topk_ids, int* __restrict__ sorted_token_ids,
                          int* __restrict__ expert_ids, int* __restrict__ num_tokens_post_pad,
                          int* __restrict__ cumsum, int numel, int experts, int block_size) {
  __shared__ int counts[1024];
  const int expert = blockIdx.x, lane = threadIdx.x;
  for (int index = lane; index < experts; index += kThreads) counts[index] = 0;
  __syncwarp();
  for (int place = lane; place < numel; place += kThreads) {
    atomicAdd(&counts[static_cast<int>(topk_ids[place])], 1);
  }
  __syncwarp();
  int start = 0;
  for (int index = lane; index < expert; index += kThreads) {
    start += (counts[index] + block_size - 1) / block_size * block_size;
  }
  for (int lanes = 16; lanes > 0; lanes /= 2) start += __shfl_xor_sync(kAll, start, lanes);
  const int whole = (counts[expert] + block_size - 1) / block_size * block_size;
  if (lane == 0) {
    cumsum[expert] = start;
    if (expert == experts - 1) {
      cumsum[experts] = start + whole;
      *num_tokens_post_pad = start + whole;
    }
  }
  for (int block = lane; block < whole / block_size; block += kThreads) {
    expert_ids[start / block_size + block] = expert;
  }
  int slot = start;
  for (int first = 0; first < numel; first += kThreads) {
    const int place = first + lane;
    const bool own = place < numel && topk_ids[place] == expert;
    const unsigned votes = __ballot_sync(kAll, own);
    if (own) sorted_token_ids[slot + __popc(votes & ((1u << lane) - 1))] = place;
    slot += __popc(votes);
  }
  for (int pad = slot + lane; pad < start + whole; pad += kThreads) sorted_token_ids[pad] = numel;
}

template <typename I>
cudaError_t launch(const void* topk_ids, void* sorted_token_ids, void* expert_ids,
                   void* num_tokens_post_pad, void* cumsum, void*, int64_t tokens, int64_t topk,
                   int64_t experts, int64_t block_size, cudaStream_t stream) {
  an_expert<I><<<static_cast<unsigned>(experts), kThreads, 0, stream>>>(
      static_cast<const I*>(topk_ids), static_cast<int*>(sorted_token_ids),
      static_cast<int*>(expert_ids), static_cast<int*>(num_tokens_post_pad),
      static_cast<int*>(cumsum), static_cast<int>(tokens * topk), static_cast<int>(experts),
      static_cast<int>(block_size));
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids,
                                            void* expert_ids, void* num_tokens_post_pad,
                                            void* cumsum, void* counters, int64_t tokens,
                                            int64_t topk, int64_t experts, int64_t block_size,
                                            int i_dtype, cudaStream_t stream) {
  switch (i_dtype) {
    case 7:
      return launch<int32_t>(topk_ids, sorted_token_ids, expert_ids, num_tokens_post_pad, cumsum,
                             counters, tokens, topk, experts, block_size, stream);
    case 8:
      return launch<int64_t>(topk_ids, sorted_token_ids, expert_ids, num_tokens_post_pad, cumsum,
                             counters, tokens, topk, experts, block_size, stream);
    default: return cudaErrorInvalidValue;
  }
}
