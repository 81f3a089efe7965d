// Logits in place, by masks of bool.
#include <ATen/cuda/CUDAContext.h>
#include <torch/all.h>

template <typename scalar_t>
__global__ void apply_penalties_kernel(scalar_t* __restrict__ logits,
                                       const bool* __restrict__ prompt_mask,
                                       const bool* __restrict__ output_mask,
                                       const scalar_t* __restrict__ repetition_penalties,
                                       const int num_seqs, const int vocab_size) {
  const int seq = blockIdx.x;
  if (seq >= num_seqs) return;
  const float penalty = static_cast<float>(repetition_penalties[seq]);
  for (int i = threadIdx.x; i < vocab_size; i += blockDim.x) {
    const int64_t at = static_cast<int64_t>(seq) * vocab_size + i;
    if (!prompt_mask[at] && !output_mask[at]) continue;
    const float logit = static_cast<float>(logits[at]);
    logits[at] = static_cast<scalar_t>(logit > 0.0f ? logit / penalty : logit * penalty);
  }
}

void apply_repetition_penalties_(
    torch::Tensor& logits,                     // [num_seqs, vocab_size], in-place
    const torch::Tensor& prompt_mask,          // [num_seqs, vocab_size]
    const torch::Tensor& output_mask,          // [num_seqs, vocab_size]
    const torch::Tensor& repetition_penalties) {  // [num_seqs]
  TORCH_CHECK(prompt_mask.is_contiguous());
  int vocab_size = logits.size(-1);
  int num_seqs = logits.size(0);
  if (num_seqs == 0) return;
  int sms = 0;
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, logits.get_device());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  VLLM_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "apply_repetition_penalties", [&] {
    apply_penalties_kernel<scalar_t><<<num_seqs, std::min(vocab_size, 1024), 0, stream>>>(
        logits.data_ptr<scalar_t>(), prompt_mask.data_ptr<bool>(), output_mask.data_ptr<bool>(),
        repetition_penalties.data_ptr<scalar_t>(), num_seqs, vocab_size);
  });
}

TORCH_LIBRARY(penalties, m) {
  m.def(
      "apply_repetition_penalties_(Tensor! logits, Tensor prompt_mask, Tensor output_mask, Tensor"
      " repetition_penalties) -> ()");
  m.impl("apply_repetition_penalties_", torch::kCUDA, &apply_repetition_penalties_);
}
