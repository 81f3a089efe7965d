// moe_align_block_size of a compiled SGLang library, of 2025 or of today, launched as its host code
// launches it: one block for few ids and buckets, else a block of 1024 threads and a second kernel that
// places the ids. In 2025 the threads that count fill the padding as well, up to where the last block
// ends; today 256 more threads or a second block fill the whole array, and the kernels can leave ids of
// -1 out, which is another name. That block writes whole vectors: here to the last that fits the array,
// upstream up to three elements beyond it.

#include <string>

extern "C" cudaError_t moe_align_block_size(const void* topk_ids, void* sorted_token_ids,
                                            void* expert_ids, void* num_tokens_post_pad,
                                            void* cumsum_buffer, int64_t tokens, int64_t topk,
                                            int64_t experts, int64_t block_size,
                                            bool pad_sorted_token_ids, int i_dtype,
                                            cudaStream_t stream) {
  constexpr int kWarp = 32, kThreads = 1024, kFillers = 256, kPlacers = 256, kVector = 4;
  if (i_dtype != 7 && i_dtype != 8) return cudaErrorInvalidValue;
  if (experts + 1 > kThreads) return cudaErrorNotSupported;
  const std::string element = i_dtype == 7 ? "i" : "l";
  const std::string sort = "_Z35count_and_sort_expert_tokens_kernelI" + element + "EvPKT_PiS3_m";
  const void* function;
  const bool today = kernel_named((sort + "b").c_str(), &function) == cudaSuccess;
  if (!today) cudaGetLastError();

  size_t ids = static_cast<size_t>(tokens * topk);
  int buckets = static_cast<int>(experts) + 1, size = static_cast<int>(block_size);
  bool without_invalid = false;
  const int64_t each = tokens * topk * block_size;
  const int64_t most = tokens * topk + buckets * (block_size - 1);
  int slots = static_cast<int>(each < most ? each : most);
  if (ids < 1024 && buckets <= 64) {
    const int workers = buckets > kWarp ? buckets : kWarp;
    const size_t bytes = ((workers + 1) * buckets + buckets + 1) * sizeof(int);
    const std::string name = "_Z46moe_align_block_size_small_batch_expert_kernelI" + element +
                             (today ? "Li256EEvPKT_PiS3_S3_iimbbi" : "EvPKT_PiS3_S3_iimb");
    if (const cudaError_t error = kernel_named(name.c_str(), &function)) return error;
    void* arguments[] = {&topk_ids, &sorted_token_ids, &expert_ids, &num_tokens_post_pad,
                         &buckets,  &size,             &ids,        &pad_sorted_token_ids,
                         &without_invalid, &slots};
    return cudaLaunchKernel(function, dim3(1),
                            dim3(static_cast<unsigned>(workers + (today ? kFillers : 0))), arguments,
                            bytes, stream);
  }

  int scanned = 1;
  while (scanned < buckets) scanned *= 2;
  const size_t bytes = (buckets + buckets + 1 + scanned + kWarp) * sizeof(int);
  slots = slots / kVector * kVector;
  const std::string align = "_Z27moe_align_block_size_kernelI" + element +
                            "EvPKT_PiS3_S3_iimS3_" + (today ? "bbii" : "bi");
  cudaError_t error = kernel_named(align.c_str(), &function);
  if (error != cudaSuccess) return error;
  void* of_2025[] = {&topk_ids, &sorted_token_ids, &expert_ids,    &num_tokens_post_pad,  &buckets,
                     &size,     &ids,              &cumsum_buffer, &pad_sorted_token_ids, &scanned};
  void* of_today[] = {&topk_ids, &sorted_token_ids, &expert_ids,    &num_tokens_post_pad,  &buckets,
                      &size,     &ids,              &cumsum_buffer, &pad_sorted_token_ids,
                      &without_invalid, &scanned,   &slots};
  error = cudaLaunchKernel(function, dim3(today ? 2 : 1), dim3(kThreads), today ? of_today : of_2025,
                           bytes, stream);
  if (error != cudaSuccess) return error;
  error = kernel_named((today ? sort + "b" : sort).c_str(), &function);
  if (error != cudaSuccess) return error;
  const size_t blocks = (ids + kPlacers - 1) / kPlacers;
  void* of_sort[] = {&topk_ids, &sorted_token_ids, &cumsum_buffer, &ids, &without_invalid};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(blocks < 65535 ? blocks : 65535)),
                          dim3(kPlacers), of_sort, 0, stream);
}
