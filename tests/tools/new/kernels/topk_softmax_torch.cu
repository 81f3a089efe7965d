// The k largest of a softmax and their places; k is a size of the results.
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void topk_softmax_kernel(const float* gating, float* weights, int* indices, int experts,
                                    int k, bool renormalize) {
  if (threadIdx.x != 0) return;
  const float* row = gating + static_cast<int64_t>(blockIdx.x) * experts;
  float most = row[0], sum = 0.0f, kept = 0.0f;
  for (int e = 1; e < experts; ++e) most = fmaxf(most, row[e]);
  for (int e = 0; e < experts; ++e) sum += expf(row[e] - most);
  for (int j = 0; j < k; ++j) {
    int best = -1;
    for (int e = 0; e < experts; ++e) {
      bool taken = false;
      for (int i = 0; i < j; ++i) taken |= indices[blockIdx.x * k + i] == e;
      if (!taken && (best < 0 || row[e] > row[best])) best = e;
    }
    indices[blockIdx.x * k + j] = best;
    weights[blockIdx.x * k + j] = expf(row[best] - most) / sum;
    kept += weights[blockIdx.x * k + j];
  }
  if (renormalize) {
    for (int j = 0; j < k; ++j) weights[blockIdx.x * k + j] /= kept;
  }
}

void topk_softmax(torch::Tensor& topk_weights,    // [num_tokens, topk]
                  torch::Tensor& topk_indices,    // [num_tokens, topk]
                  torch::Tensor& gating_output,   // [num_tokens, num_experts]
                  const bool renormalize = false) {
  const int num_experts = gating_output.size(-1);
  const auto num_tokens = gating_output.numel() / num_experts;
  const int topk = topk_weights.size(-1);
  TORCH_CHECK(topk_weights.scalar_type() == at::ScalarType::Float);
  TORCH_CHECK(gating_output.scalar_type() == at::ScalarType::Float, "float32 only");
  TORCH_CHECK(topk_indices.scalar_type() == at::ScalarType::Int);
  TORCH_CHECK(topk <= num_experts);
  topk_softmax_kernel<<<num_tokens, 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      gating_output.data_ptr<float>(), topk_weights.data_ptr<float>(), topk_indices.data_ptr<int>(),
      num_experts, topk, renormalize);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("topk_softmax", &topk_softmax); }
