// An operator of torch that changes its argument, over half and bfloat16, with a count of elements.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <torch/library.h>

template <typename T>
__global__ void gelu_kernel(T* __restrict__ x, const T* __restrict__ bias, int64_t n, int cols) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n; i += step) {
    const float v = static_cast<float>(x[i]) + static_cast<float>(bias[i % cols]);
    x[i] = static_cast<T>(0.5f * v * (1.0f + erff(v * 0.70710678f)));
  }
}

void bias_gelu_(at::Tensor& x, const at::Tensor& bias) {
  TORCH_CHECK(x.size(-1) == bias.size(0), "one bias a column");
  const int rows = x.size(0), cols = x.size(1);
  const int64_t n = x.numel();
  AT_DISPATCH_REDUCED_FLOATING_TYPES(x.scalar_type(), "bias_gelu", [&] {
    gelu_kernel<scalar_t><<<rows, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), n, cols);
  });
}

TORCH_LIBRARY(gelu, m) { m.def("bias_gelu_(Tensor(a!) x, Tensor bias) -> ()"); }
TORCH_LIBRARY_IMPL(gelu, CUDA, m) { m.impl("bias_gelu_", &bias_gelu_); }
