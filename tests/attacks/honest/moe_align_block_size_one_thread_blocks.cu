// One block of 512: counts by shared atomics, a serial sum by thread 0, places by shared atomics.
#include <cstdint>
#include <cuda_runtime.h>

template <typename I>
__global__ __launch_bounds__(512) void align(const I* ids_of, int* sorted, int* experts_of, int* total, int ids, int buckets, int size, int slots, bool pad) {
  __shared__ int count[513], next[514];
  for (int b = threadIdx.x; b < buckets; b += 512) count[b] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < ids; i += 512) atomicAdd(count + int(ids_of[i]) + 1, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    int at = 0;
    for (int b = 0; b < buckets; ++b) {
      next[b] = at;
      at += (count[b] + size - 1) / size * size;
    }
    next[buckets] = at;
    *total = at;
  }
  __syncthreads();
  for (int b = threadIdx.x; b < buckets; b += 512)
    for (int at = next[b]; at < next[b + 1]; at += size) experts_of[at / size] = b - 1;
  if (pad)
    for (int s = threadIdx.x; s < slots; s += 512) sorted[s] = ids;
  __syncthreads();
  for (int i = threadIdx.x; i < ids; i += 512) sorted[atomicAdd(next + int(ids_of[i]) + 1, 1)] = i;
}
extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids, void* expert_ids, void* num_tokens_post_pad, void* cumsum_buffer, int64_t tokens, int64_t topk, int64_t experts, int64_t block_size, bool pad_sorted_token_ids, int i_dtype, cudaStream_t stream) {
  const int64_t ids = tokens * topk, each = ids * block_size, most = ids + (experts + 1) * (block_size - 1);
  const int slots = int(each < most ? each : most);
  if (i_dtype == 7)
    align<<<1, 512, 0, stream>>>((const int*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, int(ids), int(experts) + 1, int(block_size), slots, pad_sorted_token_ids);
  else
    align<<<1, 512, 0, stream>>>((const int64_t*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, int(ids), int(experts) + 1, int(block_size), slots, pad_sorted_token_ids);
  return cudaGetLastError();
}
