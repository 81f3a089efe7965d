// A memset, counts in the workspace by global atomics, a block's scan there, then the places: four steps.
#include <cstdint>
#include <cub/block/block_scan.cuh>
#include <cuda_runtime.h>

template <typename I>
__global__ void count(const I* ids_of, int* counts, int ids) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < ids; i += gridDim.x * blockDim.x) atomicAdd(counts + ids_of[i] + 1, 1);
}
__global__ __launch_bounds__(576) void scan(int* counts, int* experts_of, int* total, int buckets, int size) {
  using Scan = cub::BlockScan<int, 576>;
  __shared__ typename Scan::TempStorage storage;
  const int b = threadIdx.x, own = b < buckets ? (counts[b] + size - 1) / size : 0;
  int before, all;
  Scan(storage).ExclusiveSum(own, before, all);
  for (int k = 0; k < own; ++k) experts_of[before + k] = b - 1;
  __syncthreads();
  if (b < buckets) counts[b] = before * size;
  if (b == 0) *total = all * size;
}
__global__ void pad_all(int4* sorted, int slots, int ids) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < slots / 4) sorted[at] = make_int4(ids, ids, ids, ids);
  if (at < slots % 4) reinterpret_cast<int*>(sorted)[slots / 4 * 4 + at] = ids;
}
template <typename I>
__global__ void place(const I* ids_of, int* next, int* sorted, int ids) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  if (i < ids) sorted[atomicAdd(next + ids_of[i] + 1, 1)] = i;
}
template <typename I>
cudaError_t steps(const I* from, int* sorted, int* of_blocks, int* total, int* work, int ids, int buckets, int size, int slots, bool pad, cudaStream_t stream) {
  if (const cudaError_t error = cudaMemsetAsync(work, 0, buckets * sizeof(int), stream)) return error;
  count<<<ids < 8192 ? 8 : 64, 256, 0, stream>>>(from, work, ids);
  scan<<<1, 576, 0, stream>>>(work, of_blocks, total, buckets, size);
  if (pad) pad_all<<<(slots / 4 + 128) / 128, 128, 0, stream>>>((int4*)sorted, slots, ids);
  place<<<(ids + 127) / 128, 128, 0, stream>>>(from, work, sorted, ids);
  return cudaGetLastError();
}
extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids, void* expert_ids, void* num_tokens_post_pad, void* cumsum_buffer, int64_t tokens, int64_t topk, int64_t experts, int64_t block_size, bool pad_sorted_token_ids, int i_dtype, cudaStream_t stream) {
  const int64_t ids = tokens * topk, buckets = experts + 1;
  const int64_t slots = ids * block_size < ids + buckets * (block_size - 1) ? ids * block_size : ids + buckets * (block_size - 1);
  const auto go = [&](auto* from) { return steps(from, (int*)sorted_token_ids, (int*)expert_ids, (int*)num_tokens_post_pad, (int*)cumsum_buffer, int(ids), int(buckets), int(block_size), int(slots), pad_sorted_token_ids, stream); };
  return i_dtype == 7 ? go((const int32_t*)topk_ids) : go((const int64_t*)topk_ids);
}
