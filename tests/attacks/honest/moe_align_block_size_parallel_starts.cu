// Every block counts all ids again in its shared memory; block b writes the blocks of its own experts, and places their ids by rank.
#include <cuda_runtime.h>
#include <cstdint>

template <typename I>
__global__ __launch_bounds__(256) void everyone_counts(const I* __restrict__ in, int* __restrict__ sorted, int* __restrict__ of_blocks, int* __restrict__ total, int ids, int buckets, int size, int slots, int pad) {
  extern __shared__ int s[];
  int* counts = s;
  int* cursor = s + buckets;
  for (int b = threadIdx.x; b < buckets; b += 256) counts[b] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < ids; i += 256) atomicAdd(&counts[static_cast<int>(in[i]) + 1], 1);
  __syncthreads();
  if (threadIdx.x < 32) {
    int carried = 0;
    for (int first = 0; first < buckets; first += 32) {
      const int b = first + threadIdx.x;
      const int whole = b < buckets ? (counts[b] + size - 1) / size * size : 0;
      int sum = whole;
#pragma unroll
      for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, d);
        sum += threadIdx.x >= d ? other : 0;
      }
      if (b < buckets) cursor[b] = carried + sum - whole;
      carried += __shfl_sync(0xffffffffu, sum, 31);
    }
    if (threadIdx.x == 0) cursor[buckets] = carried;
  }
  __syncthreads();
  const int end = cursor[buckets];
  for (int b = blockIdx.x; b < buckets; b += gridDim.x) {
    const int start = cursor[b], own = counts[b], stop = start + (own + size - 1) / size * size;
    for (int at = start + threadIdx.x; at < stop; at += 256) {
      if ((at - start) % size == 0) of_blocks[at / size] = b - 1;
      if (pad && at >= start + own) sorted[at] = ids;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < ids; i += 256)
      if (static_cast<int>(in[i]) + 1 == b) sorted[atomicAdd(&cursor[b], 1)] = i;
    __syncthreads();
  }
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) *total = end;
    if (pad)
      for (int at = end + threadIdx.x; at < slots; at += 256) sorted[at] = ids;
  }
}
extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids, void* expert_ids, void* num_tokens_post_pad, void* cumsum_buffer, int64_t tokens, int64_t topk, int64_t experts, int64_t block_size, bool pad_sorted_token_ids, int i_dtype, cudaStream_t stream) {
  const int ids = int(tokens * topk), buckets = int(experts + 1), size = int(block_size);
  const int64_t least = int64_t(ids) * size, most = ids + int64_t(buckets) * (size - 1);
  const int slots = int(least < most ? least : most), bytes = (2 * buckets + 1) * 4, grid = buckets < 32 ? buckets : 32;
  switch (i_dtype) {
    case 7: everyone_counts<int32_t><<<grid, 256, bytes, stream>>>((const int32_t*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, ids, buckets, size, slots, pad_sorted_token_ids); break;
    case 8: everyone_counts<int64_t><<<grid, 256, bytes, stream>>>((const int64_t*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, ids, buckets, size, slots, pad_sorted_token_ids); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
