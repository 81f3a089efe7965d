// An operator of torch with a schema: the result is an argument.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <torch/library.h>

namespace gating {

template <typename T>
__global__ void gate_kernel(T* out, const T* input, const float* scale, int d) {
  const T* row = input + static_cast<int64_t>(blockIdx.x) * 2 * d;
  for (int i = threadIdx.x; i < d; i += blockDim.x) {
    const float gate = static_cast<float>(row[i]);
    out[static_cast<int64_t>(blockIdx.x) * d + i] =
        static_cast<T>(gate / (1.0f + expf(-gate)) * static_cast<float>(row[d + i]) * scale[i]);
  }
}

void gate(at::Tensor& out, const at::Tensor& input, const at::Tensor& scale, bool fast) {
  TORCH_CHECK(input.dim() == 2, "input must be [tokens, 2 * d]");
  int tokens = input.size(0);
  int d = input.size(1) / 2;
  if (tokens == 0) {
    return;
  }
  auto stream = at::cuda::getCurrentCUDAStream();
  dim3 grid(tokens);
  dim3 block(d < 1024 ? d : 1024);
  if (input.scalar_type() == at::ScalarType::Half) {
    gate_kernel<__half><<<grid, block, 0, stream>>>(
        reinterpret_cast<__half*>(out.data_ptr<at::Half>()),
        reinterpret_cast<const __half*>(input.data_ptr<at::Half>()), scale.data_ptr<float>(), d);
  }
}

}  // namespace gating

TORCH_LIBRARY(gating, m) {
  m.def("gate(Tensor! out, Tensor input, Tensor scale, bool fast=False) -> ()");
}

TORCH_LIBRARY_IMPL(gating, CUDA, m) { m.impl("gate", &gating::gate); }
