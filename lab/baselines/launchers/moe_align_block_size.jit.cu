// moe_align_block_size as SGLang compiles it at run time today, by the source in its package: one
// block for few ids and experts, else a block that counts beside one that fills, and a second kernel
// that places the ids.

#include <cstdint>
#include <cuda_runtime.h>
#include <moe/moe_align_kernel.cu>

namespace {

constexpr int kThreads = 1024, kFillers = 256, kPlacers = 256;

template <typename I>
cudaError_t launch(const void* topk_ids, int32_t* sorted_token_ids, int32_t* expert_ids,
                   int32_t* num_tokens_post_pad, int32_t* cumsum_buffer, size_t ids, int buckets,
                   int block_size, bool pad, cudaStream_t stream) {
  const I* from = static_cast<const I*>(topk_ids);
  const size_t each = ids * block_size, most = ids + static_cast<size_t>(buckets) * (block_size - 1);
  const int slots = static_cast<int>(each < most ? each : most);
  const int blocks = (slots + block_size - 1) / block_size;
  if (ids < 1024 && buckets <= 64) {
    const int workers = buckets > 32 ? buckets : 32;
    const size_t bytes = ((workers + 1) * buckets + buckets + 1) * sizeof(int32_t);
    sglang::moe::moe_align_block_size_small_batch_expert_kernel<I, kFillers, false, false, false>
        <<<1, kFillers + workers, bytes, stream>>>(from, sorted_token_ids, expert_ids,
                                                   num_tokens_post_pad, buckets, block_size, ids,
                                                   pad, slots, blocks);
    return cudaGetLastError();
  }
  int scanned = 1;
  while (scanned < buckets) scanned *= 2;
  const size_t bytes = (buckets + buckets + 1 + scanned + 32) * sizeof(int32_t);
  sglang::moe::moe_align_block_size_kernel<I, false, false, false>
      <<<2, kThreads, bytes, stream>>>(from, sorted_token_ids, expert_ids, num_tokens_post_pad,
                                       buckets, block_size, ids, cumsum_buffer, pad, scanned, slots,
                                       blocks);
  const size_t placers = (ids + kPlacers - 1) / kPlacers;
  sglang::moe::count_and_sort_expert_tokens_kernel<I>
      <<<static_cast<unsigned>(placers < 65535 ? placers : 65535), kPlacers, 0, stream>>>(
          from, sorted_token_ids, cumsum_buffer, ids);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids,
                                            void* expert_ids, void* num_tokens_post_pad,
                                            void* cumsum_buffer, int64_t tokens, int64_t topk,
                                            int64_t experts, int64_t block_size,
                                            bool pad_sorted_token_ids, int i_dtype,
                                            cudaStream_t stream) {
  if (experts + 1 > 1024) return cudaErrorNotSupported;
  const auto run = i_dtype == 7 ? launch<int32_t> : launch<int64_t>;
  return run(topk_ids, static_cast<int32_t*>(sorted_token_ids), static_cast<int32_t*>(expert_ids),
             static_cast<int32_t*>(num_tokens_post_pad), static_cast<int32_t*>(cumsum_buffer),
             static_cast<size_t>(tokens * topk), static_cast<int>(experts) + 1,
             static_cast<int>(block_size), pad_sorted_token_ids, stream);
}
