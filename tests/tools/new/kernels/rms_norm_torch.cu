#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda.h>
#include <cuda_runtime.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

template <typename scalar_t>
__global__ void rms_norm_kernel(scalar_t* __restrict__ out, const scalar_t* __restrict__ input,
                                const scalar_t* __restrict__ weight, float eps, int hidden) {
  __shared__ float partial[32];
  const scalar_t* row = input + static_cast<int64_t>(blockIdx.x) * hidden;
  float sum = 0.0f;
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    const float x = static_cast<float>(row[i]);
    sum += x * x;
  }
  for (int lane = 16; lane > 0; lane /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int i = 0; i < blockDim.x / 32; ++i) sum += partial[i];
  const float scale = rsqrtf(sum / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += blockDim.x) {
    out[static_cast<int64_t>(blockIdx.x) * hidden + i] =
        static_cast<scalar_t>(static_cast<float>(row[i]) * scale * static_cast<float>(weight[i]));
  }
}

torch::Tensor rms_norm_cuda(torch::Tensor input, torch::Tensor weight, double eps = 1e-6) {
  CHECK_INPUT(input);
  CHECK_INPUT(weight);
  const at::cuda::OptionalCUDAGuard guard(device_of(input));
  const int hidden = input.size(-1);
  const int rows = input.numel() / hidden;
  auto out = torch::empty_like(input);
  const dim3 grid(rows);
  const dim3 block(std::min(1024, (hidden + 31) / 32 * 32));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::ScalarType::Half, at::ScalarType::BFloat16, input.scalar_type(), "rms_norm_cuda", ([&] {
        rms_norm_kernel<scalar_t><<<grid, block, 0, stream>>>(
            out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(),
            static_cast<float>(eps), hidden);
      }));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("rms_norm", &rms_norm_cuda, "RMSNorm", py::arg("input"), py::arg("weight"),
        py::arg("eps") = 1e-6);
}
