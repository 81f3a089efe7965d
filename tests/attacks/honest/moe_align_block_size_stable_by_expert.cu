// A block an expert counts those below it and its own; ids are placed in order by ballots. No atomics at all.
#include <cuda_runtime.h>
#include <cstdint>

template <typename I>
__global__ __launch_bounds__(32) void bucket_a_warp(const I* from, int* sorted, int* of_blocks, int* total, int ids, int buckets, int size) {
  extern __shared__ int counts[];
  const int bucket = blockIdx.x, lane = threadIdx.x;
  for (int b = lane; b <= bucket; b += 32) counts[b] = 0;
  __syncwarp();
  for (int first = 0; first < ids; first += 32) {
    const int mine = first + lane < ids ? int(from[first + lane]) + 1 : -1;
    const unsigned alike = __match_any_sync(0xffffffffu, mine);
    if (mine >= 0 && mine <= bucket && lane == __ffs(alike) - 1) counts[mine] += __popc(alike);
    __syncwarp();
  }
  int start = 0;
  for (int b = lane; b < bucket; b += 32) start += (counts[b] + size - 1) / size * size;
  for (int d = 16; d; d /= 2) start += __shfl_xor_sync(0xffffffffu, start, d);
  const int own = counts[bucket], end = start + (own + size - 1) / size * size;
  for (int at = start + lane * size; at < end; at += 32 * size) of_blocks[at / size] = bucket - 1;
  int placed = 0;
  for (int first = 0; first < ids && placed < own; first += 32) {
    const bool here = first + lane < ids && int(from[first + lane]) + 1 == bucket;
    const unsigned all = __ballot_sync(0xffffffffu, here);
    if (here) sorted[start + placed + __popc(all & ((1u << lane) - 1))] = first + lane;
    placed += __popc(all);
  }
  for (int at = start + own + lane; at < end; at += 32) sorted[at] = ids;
  if (bucket + 1 == buckets && lane == 0) *total = end;
}
__global__ void fill_rest(int* sorted, const int* total, int ids, int slots) {
  for (int at = *total + blockIdx.x * 256 + threadIdx.x; at < slots; at += 256 * gridDim.x) sorted[at] = ids;
}
extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids, void* expert_ids, void* num_tokens_post_pad, void* cumsum_buffer, int64_t tokens, int64_t topk, int64_t experts, int64_t block_size, bool pad_sorted_token_ids, int i_dtype, cudaStream_t stream) {
  const int ids = int(tokens * topk), buckets = int(experts) + 1;
  const unsigned bytes = unsigned(buckets * sizeof(int));
  if (i_dtype == 7) bucket_a_warp<<<buckets, 32, bytes, stream>>>((const int32_t*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, ids, buckets, int(block_size));
  if (i_dtype == 8) bucket_a_warp<<<buckets, 32, bytes, stream>>>((const long*)topk_ids, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, ids, buckets, int(block_size));
  const int64_t each = int64_t(ids) * block_size, most = ids + buckets * (block_size - 1);
  if (pad_sorted_token_ids) fill_rest<<<8, 256, 0, stream>>>((int*)sorted_token_ids, (const int*)num_tokens_post_pad, ids, int(each < most ? each : most));
  return cudaGetLastError();
}
