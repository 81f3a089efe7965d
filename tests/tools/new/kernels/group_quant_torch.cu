// Codes of eight bits in groups, each with a scale: numbers as parameters, a branch on the dtype.
#include <ATen/cuda/CUDAContext.h>
#include <torch/all.h>
#include <cuda_bf16.h>

#include <cstdint>

template <typename T>
__global__ void group_quant_kernel(const T* __restrict__ input, int8_t* __restrict__ codes,
                                   float* __restrict__ scales, int group_size, float eps,
                                   float min_8bit, float max_8bit) {
  const int64_t group = blockIdx.x;
  float most = eps;
  for (int i = 0; i < group_size; ++i) {
    most = fmaxf(most, fabsf(static_cast<float>(__ldg(input + group * group_size + i))));
  }
  const float scale = most / max_8bit;
  if (threadIdx.x == 0) scales[group] = scale;
  for (int i = threadIdx.x; i < group_size; i += blockDim.x) {
    const float code = static_cast<float>(input[group * group_size + i]) / scale;
    codes[group * group_size + i] = static_cast<int8_t>(fminf(fmaxf(rintf(code), min_8bit), max_8bit));
  }
}

void sgl_per_token_group_quant_8bit(at::Tensor input,     // [num_tokens, hidden]
                                    at::Tensor output_q,  // [num_tokens, hidden]
                                    at::Tensor output_s,  // [num_tokens, hidden / group_size]
                                    int64_t group_size, double eps, double min_8bit,
                                    double max_8bit) {
  CHECK_INPUT(input);
  CHECK_INPUT(output_q);
  const int num_groups = input.numel() / group_size;
  TORCH_CHECK(input.numel() % group_size == 0);
  CHECK_EQ(output_s.dim(), 2);
  TORCH_CHECK(input.scalar_type() == at::ScalarType::Half ||
              input.scalar_type() == at::ScalarType::BFloat16);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  DISPATCH_PYTORCH_DTYPE_TO_CTYPE_FLOAT_FP16(input.scalar_type(), scalar_t, [&] {
    group_quant_kernel<scalar_t><<<num_groups, 32, 0, stream>>>(
        static_cast<scalar_t*>(input.data_ptr()), static_cast<int8_t*>(output_q.data_ptr()),
        static_cast<float*>(output_s.data_ptr()), group_size, (float)eps, (float)min_8bit,
        (float)max_8bit);
    return true;
  });
}

TORCH_LIBRARY_FRAGMENT(sgl, m) {
  m.def(
      "sgl_per_token_group_quant_8bit(Tensor input, Tensor! output_q, Tensor! output_s, int"
      " group_size, float eps, float min_8bit, float max_8bit) -> ()");
  m.impl("sgl_per_token_group_quant_8bit", torch::kCUDA, &sgl_per_token_group_quant_8bit);
}
