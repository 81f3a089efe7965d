// moe_align_block_size by the Triton kernel that SGLang launches for up to 64 ids of 64 experts or
// more: one block, which compares every id with every other. Its machine code stands before this text.
// Behind the last block of an expert it writes nothing.

extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids,
                                            void* expert_ids, void* num_tokens_post_pad,
                                            void* cumsum_buffer, int64_t tokens, int64_t topk,
                                            int64_t experts, int64_t block_size,
                                            bool pad_sorted_token_ids, int i_dtype,
                                            cudaStream_t stream) {
  const int ids = static_cast<int>(tokens * topk);
  if (i_dtype != 7 || ids > 64 || ids > experts || block_size % 16) return cudaErrorNotSupported;
  const auto kernel = ids <= 8    ? triton_moe_align_small_numel_kernel_8
                      : ids <= 16 ? triton_moe_align_small_numel_kernel_16
                      : ids <= 32 ? triton_moe_align_small_numel_kernel_32
                                  : triton_moe_align_small_numel_kernel_64;
  return launch_kernel(kernel, dim3(1), dim3(128), stream, const_cast<void*>(topk_ids),
                       sorted_token_ids, expert_ids, num_tokens_post_pad,
                       static_cast<int>(experts) + 1, static_cast<int>(block_size), ids);
}
