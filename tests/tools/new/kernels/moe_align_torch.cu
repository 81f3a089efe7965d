// Integers only: tokens sorted by expert, each expert's part padded to whole blocks.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

#define CEILDIV(x, y) (((x) + (y)-1) / (y))

template <typename scalar_t>
__global__ void moe_align_kernel(const scalar_t* __restrict__ topk_ids, int32_t* sorted_token_ids,
                                 int32_t* expert_ids, int32_t* total_tokens_post_pad,
                                 int32_t num_experts, int32_t block_size, size_t numel,
                                 int32_t* cumsum) {
  if (threadIdx.x != 0) return;
  cumsum[0] = 0;
  for (int e = 0; e < num_experts; ++e) {
    int count = 0;
    for (size_t i = 0; i < numel; ++i) count += topk_ids[i] == e;
    cumsum[e + 1] = cumsum[e] + CEILDIV(count, block_size) * block_size;
    for (int i = cumsum[e]; i < cumsum[e + 1]; i += block_size) expert_ids[i / block_size] = e;
    int at = cumsum[e];
    for (size_t i = 0; i < numel; ++i) {
      if (topk_ids[i] == e) sorted_token_ids[at++] = static_cast<int32_t>(i);
    }
    while (at < cumsum[e + 1]) sorted_token_ids[at++] = static_cast<int32_t>(numel);
  }
  *total_tokens_post_pad = cumsum[num_experts];
}

void moe_align_block_size(torch::Tensor topk_ids,           // [num_tokens, topk]
                          int64_t num_experts, int64_t block_size,
                          torch::Tensor sorted_token_ids,   // [max_padded]
                          torch::Tensor experts_ids,        // [max_blocks]
                          torch::Tensor num_tokens_post_pad,  // [1]
                          torch::Tensor cumsum_buffer) {    // [num_experts + 1]
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  VLLM_DISPATCH_INTEGRAL_TYPES(topk_ids.scalar_type(), "moe_align_block_size", [&] {
    moe_align_kernel<scalar_t><<<1, 32, 0, stream>>>(
        topk_ids.data_ptr<scalar_t>(), sorted_token_ids.data_ptr<int32_t>(),
        experts_ids.data_ptr<int32_t>(), num_tokens_post_pad.data_ptr<int32_t>(), num_experts,
        block_size, topk_ids.numel(), cumsum_buffer.data_ptr<int32_t>());
  });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("moe_align_block_size", &moe_align_block_size, "Sort tokens by expert");
}
