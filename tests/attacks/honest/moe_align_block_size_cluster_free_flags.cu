// The first block to finish counting is not known: the last one, by a ticket in the workspace, does the rest.
#include <cstdint>
#include <cuda_runtime.h>

template <typename I>
__global__ void tickets(const I* ids_of, int* sorted, int* of_blocks, int* total, int* work, int ids, int buckets, int size, int slots, bool pad) {
  __shared__ int last, starts[514];
  int* ticket = work + buckets;
  const int at = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
  for (int i = at; i < ids; i += step) atomicAdd(work + int(ids_of[i]) + 1, 1);
  if (pad)
    for (int i = at; i < slots; i += step) sorted[i] = ids;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ticket, 1) == int(gridDim.x) - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  if (threadIdx.x == 0) {
    starts[0] = 0;
    for (int b = 0; b < buckets; ++b) starts[b + 1] = starts[b] + (__ldcg(work + b) + size - 1) / size * size;
    *total = starts[buckets];
  }
  __syncthreads();
  for (int b = threadIdx.x; b < buckets; b += blockDim.x)
    for (int slot = starts[b]; slot < starts[b + 1]; slot += size) of_blocks[slot / size] = b - 1;
  __syncthreads();
  for (int i = threadIdx.x; i < ids; i += blockDim.x) sorted[atomicAdd(starts + int(ids_of[i]) + 1, 1)] = i;
}
extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids, void* expert_ids, void* num_tokens_post_pad, void* cumsum_buffer, int64_t tokens, int64_t topk, int64_t experts, int64_t block_size, bool pad_sorted_token_ids, int i_dtype, cudaStream_t stream) {
  const int64_t ids = tokens * topk;
  const int64_t slots = ids * block_size < ids + (experts + 1) * (block_size - 1) ? ids * block_size : ids + (experts + 1) * (block_size - 1);
  cudaError_t error = cudaMemsetAsync(cumsum_buffer, 0, (experts + 2) * sizeof(int), stream);
  if (error != cudaSuccess) return error;
  if (i_dtype == 7)
    tickets<<<16, 256, 0, stream>>>((const int*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, (int*)cumsum_buffer, int(ids), int(experts + 1), int(block_size), int(slots), pad_sorted_token_ids);
  else
    tickets<<<16, 256, 0, stream>>>((const int64_t*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, (int*)cumsum_buffer, int(ids), int(experts + 1), int(block_size), int(slots), pad_sorted_token_ids);
  return cudaGetLastError();
}
