// Three launches: counts into the caller's workspace, which must be set to zero first; sums by one
// thread; then the scatter, which fills what is beyond the end of the last expert, too.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

template <typename I>
__global__ void count(const I* __restrict__ topk_ids, int* __restrict__ counters, int numel) {
  const int place = blockIdx.x * 128 + threadIdx.x;
  if (place < numel) atomicAdd(&counters[static_cast<int>(topk_ids[place]) + 1], 1);
}

__global__ void sum(int* __restrict__ sorted_token_ids, int* __restrict__ expert_ids,
                    int* __restrict__ num_tokens_post_pad, int* __restrict__ counters, int numel,
                    int experts, int block_size, bool pad) {
  const int most = min(numel * block_size, numel + experts * (block_size - 1));
  for (int slot = threadIdx.x; slot < most && pad; slot += blockDim.x) {
    sorted_token_ids[slot] = numel;
  }
  if (threadIdx.x > 0) return;
  int start = 0;
  for (int expert = 0; expert < experts; ++expert) {
    const int held = counters[expert];
    counters[expert] = start;
    for (int slot = 0; slot < held; slot += block_size) {
      expert_ids[start / block_size] = expert - 1;
      start += block_size;
    }
  }
  *num_tokens_post_pad = start;
}

template <typename I>
__global__ void scatter(const I* __restrict__ topk_ids, int* __restrict__ sorted_token_ids,
                        int* __restrict__ counters, int numel) {
  const int place = numel - 1 - static_cast<int>(blockIdx.x * 128 + threadIdx.x);
  if (place < 0) return;
  sorted_token_ids[atomicAdd(&counters[static_cast<int>(topk_ids[place]) + 1], 1)] = place;
}

template <typename I>
cudaError_t launch(const I* topk_ids, int* sorted_token_ids, int* expert_ids,
                   int* num_tokens_post_pad, int* counters, int numel, int buckets, int block_size,
                   bool pad, cudaStream_t stream) {
  const int blocks = (numel + 127) / 128;
  cudaMemsetAsync(counters, 0, buckets * sizeof(int), stream);
  count<I><<<blocks, 128, 0, stream>>>(topk_ids, counters, numel);
  sum<<<1, 256, 0, stream>>>(sorted_token_ids, expert_ids, num_tokens_post_pad, counters, numel,
                             buckets, block_size, pad);
  scatter<I><<<blocks, 128, 0, stream>>>(topk_ids, sorted_token_ids, counters, numel);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids,
                                            void* expert_ids, void* num_tokens_post_pad,
                                            void* cumsum_buffer, int64_t tokens, int64_t topk,
                                            int64_t experts, int64_t block_size,
                                            bool pad_sorted_token_ids, int i_dtype,
                                            cudaStream_t stream) {
  const auto with = [&](auto ids) {
    return launch(ids, static_cast<int*>(sorted_token_ids), static_cast<int*>(expert_ids),
                  static_cast<int*>(num_tokens_post_pad), static_cast<int*>(cumsum_buffer),
                  static_cast<int>(tokens * topk), static_cast<int>(experts) + 1,
                  static_cast<int>(block_size), pad_sorted_token_ids, stream);
  };
  if (i_dtype == 7) return with(static_cast<const int32_t*>(topk_ids));
  return with(static_cast<const int64_t*>(topk_ids));
}
