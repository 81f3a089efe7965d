// Weights of four bits, eight in an int32: extents that are quotients, a result that is allocated.
#include <torch/extension.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void dequantize_kernel(const int* packed, const half* scales, const int* zeros,
                                  half* out, int out_features, int group_size) {
  const int row = blockIdx.x, words = out_features / 8;
  for (int i = threadIdx.x; i < out_features; i += blockDim.x) {
    const int shift = 4 * (i % 8), group = row / group_size;
    const int code = (packed[row * words + i / 8] >> shift) & 15;
    const int zero = (zeros[group * words + i / 8] >> shift) & 15;
    out[row * out_features + i] = __float2half(
        static_cast<float>(code - zero) * __half2float(scales[group * out_features + i]));
  }
}

torch::Tensor awq_dequantize(torch::Tensor qweight,  // [in_features, out_features / 8]
                             torch::Tensor scales,   // [in_features / group_size, out_features]
                             torch::Tensor qzeros) { // [in_features / group_size, out_features / 8]
  const at::cuda::OptionalCUDAGuard guard(device_of(qweight));
  int in_features = qweight.size(0);
  int out_features = scales.size(1);
  int group_size = in_features / scales.size(0);
  TORCH_CHECK(out_features % 8 == 0);
  auto options = torch::TensorOptions().dtype(scales.dtype()).device(scales.device());
  at::Tensor out = torch::empty({in_features, out_features}, options);
  auto packed = qweight.data_ptr<int>();
  auto zeros = qzeros.data_ptr<int>();
  auto factors = reinterpret_cast<half*>(scales.data_ptr<at::Half>());
  auto result = reinterpret_cast<half*>(out.data_ptr<at::Half>());
  dequantize_kernel<<<in_features, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      packed, factors, zeros, result, out_features, group_size);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("awq_dequantize", &awq_dequantize); }
