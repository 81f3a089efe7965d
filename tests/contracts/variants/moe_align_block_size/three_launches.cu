// Three launches: counts into the caller's workspace, which must be set to zero first; sums by one
// thread; then the scatter, which fills what is beyond the end of the last expert, too.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

template <typename I>
__global__ void count(const I* __restrict__ topk_ids, int* __restrict__ counters, int numel) {
  const int place = blockIdx.x * 128 + threadIdx.x;
  if (place < numel) atomicAdd(&counters[static_cast<int>(topk_ids[place])], 1);
}

__global__ void sum(int* __restrict__ sorted_token_ids, int* __restrict__ expert_ids,
                    int* __restrict__ num_tokens_post_pad, int* __restrict__ cumsum,
                    int* __restrict__ counters, int numel, int experts, int block_size) {
  const int most = numel + experts * (block_size - 1);
  for (int slot = threadIdx.x; slot < most; slot += blockDim.x) sorted_token_ids[slot] = numel;
  if (threadIdx.x > 0) return;
  int start = 0;
  for (int expert = 0; expert < experts; ++expert) {
    const int held = counters[expert];
    cumsum[expert] = start;
    counters[expert] = start;
    for (int slot = 0; slot < held; slot += block_size) {
      expert_ids[start / block_size] = expert;
      start += block_size;
    }
  }
  cumsum[experts] = start;
  *num_tokens_post_pad = start;
}

template <typename I>
__global__ void scatter(const I* __restrict__ topk_ids, int* __restrict__ sorted_token_ids,
                        int* __restrict__ counters, int numel) {
  const int place = numel - 1 - static_cast<int>(blockIdx.x * 128 + threadIdx.x);
  if (place < 0) return;
  sorted_token_ids[atomicAdd(&counters[static_cast<int>(topk_ids[place])], 1)] = place;
}

template <typename I>
cudaError_t launch(const void* topk_ids, void* sorted_token_ids, void* expert_ids,
                   void* num_tokens_post_pad, void* cumsum, void* counters, int64_t tokens,
                   int64_t topk, int64_t experts, int64_t block_size, cudaStream_t stream) {
  const I* ids = static_cast<const I*>(topk_ids);
  int* sorted = static_cast<int*>(sorted_token_ids);
  int* counted = static_cast<int*>(counters);
  const int numel = static_cast<int>(tokens * topk), blocks = (numel + 127) / 128;
  cudaMemsetAsync(counted, 0, experts * sizeof(int), stream);
  count<I><<<blocks, 128, 0, stream>>>(ids, counted, numel);
  sum<<<1, 256, 0, stream>>>(sorted, static_cast<int*>(expert_ids),
                             static_cast<int*>(num_tokens_post_pad), static_cast<int*>(cumsum),
                             counted, numel, static_cast<int>(experts),
                             static_cast<int>(block_size));
  scatter<I><<<blocks, 128, 0, stream>>>(ids, sorted, counted, numel);
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
