// Per-token fp8 codes and scales: two dispatched dtypes, an optional bound.
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp8.h>
#include <torch/all.h>

namespace serving {

template <typename scalar_t, typename fp8_t>
__global__ void per_token_quant_kernel(fp8_t* __restrict__ out, float* __restrict__ scales,
                                       const scalar_t* __restrict__ input,
                                       const float* __restrict__ scale_ub, int hidden_size) {
  __shared__ float largest;
  const scalar_t* row = input + static_cast<int64_t>(blockIdx.x) * hidden_size;
  if (threadIdx.x == 0) {
    float most = 0.0f;
    for (int i = 0; i < hidden_size; ++i) most = fmaxf(most, fabsf(static_cast<float>(row[i])));
    if (scale_ub != nullptr) most = fminf(most, *scale_ub);
    largest = fmaxf(most / 448.0f, 1.0f / (448.0f * 512.0f));
    scales[blockIdx.x] = largest;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < hidden_size; i += blockDim.x) {
    const float code = fminf(fmaxf(static_cast<float>(row[i]) / largest, -448.0f), 448.0f);
    out[static_cast<int64_t>(blockIdx.x) * hidden_size + i] = static_cast<fp8_t>(code);
  }
}

}  // namespace serving

void dynamic_per_token_fp8_quant(torch::Tensor& out,          // [..., d]
                                 torch::Tensor const& input,  // [..., d]
                                 torch::Tensor& scales,       // [num_tokens, 1]
                                 std::optional<at::Tensor> const& scale_ub) {
  TORCH_CHECK(input.is_contiguous() && out.is_contiguous());
  TORCH_CHECK(scales.scalar_type() == at::ScalarType::Float);
  int const hidden_size = input.size(-1);
  int const num_tokens = input.numel() / hidden_size;
  dim3 const grid(num_tokens);
  dim3 const block(std::min(hidden_size, 1024));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  VLLM_DISPATCH_FLOATING_TYPES(input.scalar_type(), "quant_input", [&] {
    VLLM_DISPATCH_FP8_TYPES(out.scalar_type(), "quant_output", [&] {
      serving::per_token_quant_kernel<scalar_t, fp8_t><<<grid, block, 0, stream>>>(
          out.data_ptr<fp8_t>(), scales.data_ptr<float>(), input.data_ptr<scalar_t>(),
          scale_ub.has_value() ? scale_ub->data_ptr<float>() : nullptr, hidden_size);
    });
  });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("dynamic_per_token_fp8_quant", &dynamic_per_token_fp8_quant);
}
