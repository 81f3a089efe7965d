// moe_align_block_size: the algorithm of SGLang's kernel for many tokens. One block counts the experts'
// tokens in shared memory, sums the whole blocks up and writes what belongs to the blocks; a second
// launch puts each place into its expert's blocks, in the order of its atomics.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 1024;
constexpr int kScatter = 256;

template <typename I>
__global__ void align_kernel(const I* __restrict__ topk_ids, int* __restrict__ sorted_token_ids,
                             int* __restrict__ expert_ids, int* __restrict__ num_tokens_post_pad,
                             int* __restrict__ cumsum, int* __restrict__ counters, int numel,
                             int experts, int block_size) {
  __shared__ int counts[kThreads];
  __shared__ int sums[2][kThreads];
  const int thread = threadIdx.x;
  counts[thread] = 0;
  __syncthreads();
  for (int place = thread; place < numel; place += kThreads) {
    atomicAdd(&counts[static_cast<int>(topk_ids[place])], 1);
  }
  __syncthreads();
  const int whole = (counts[thread] + block_size - 1) / block_size * block_size;
  sums[0][thread] = whole;
  __syncthreads();
  int from = 0;
  for (int distance = 1; distance < kThreads; distance *= 2) {
    const int before = thread >= distance ? sums[from][thread - distance] : 0;
    sums[1 - from][thread] = sums[from][thread] + before;
    from = 1 - from;
    __syncthreads();
  }
  const int end = sums[from][thread];
  const int start = end - whole;
  if (thread < experts) {
    cumsum[thread] = start;
    counters[thread] = start;
    if (thread == experts - 1) {
      cumsum[experts] = end;
      *num_tokens_post_pad = end;
    }
    for (int block = start / block_size; block < end / block_size; ++block) {
      expert_ids[block] = thread;
    }
  }
  const int total = sums[from][kThreads - 1];
  for (int slot = thread; slot < total; slot += kThreads) sorted_token_ids[slot] = numel;
}

template <typename I>
__global__ void scatter_kernel(const I* __restrict__ topk_ids, int* __restrict__ sorted_token_ids,
                               int* __restrict__ counters, int numel) {
  const int place = blockIdx.x * kScatter + threadIdx.x;
  if (place >= numel) return;
  const int slot = atomicAdd(&counters[static_cast<int>(topk_ids[place])], 1);
  sorted_token_ids[slot] = place;
}

template <typename I>
cudaError_t launch(const void* topk_ids, void* sorted_token_ids, void* expert_ids,
                   void* num_tokens_post_pad, void* cumsum, void* counters, int64_t tokens,
                   int64_t topk, int64_t experts, int64_t block_size, cudaStream_t stream) {
  const I* ids = static_cast<const I*>(topk_ids);
  const int numel = static_cast<int>(tokens * topk);
  align_kernel<I><<<1, kThreads, 0, stream>>>(
      ids, static_cast<int*>(sorted_token_ids), static_cast<int*>(expert_ids),
      static_cast<int*>(num_tokens_post_pad), static_cast<int*>(cumsum),
      static_cast<int*>(counters), numel, static_cast<int>(experts), static_cast<int>(block_size));
  scatter_kernel<I><<<(numel + kScatter - 1) / kScatter, kScatter, 0, stream>>>(
      ids, static_cast<int*>(sorted_token_ids), static_cast<int*>(counters), numel);
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
