// A short convolution and its gradient; Astra's own, in the form of the files that ship such.
#include <torch/extension.h>

#define CHECK_SHAPE(x, ...) TORCH_CHECK(x.sizes() == torch::IntArrayRef({__VA_ARGS__}), #x " has a wrong shape")

__global__ void weigh(const float* x, const float* dout, const float* bias, float* dx, float* dbias, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    dx[i] = x[i] * dout[i] + (bias ? bias[0] : 0.0f);
    if (dbias) dbias[0] = dout[0];
  }
}

/*
Gradients.

Args:
  dout: float tensor of shape [batch, dim, seqlen];
*/
void short_conv_bwd(const at::Tensor& x, const c10::optional<at::Tensor>& bias_, at::Tensor& dout, at::Tensor& dx,
                    c10::optional<at::Tensor>& dbias_) {
  const auto sizes = x.sizes();
  const int batch = sizes[0];
  const int dim = sizes[1];
  const int seqlen = sizes[2];
  auto type = x.scalar_type();
  TORCH_CHECK(type == at::ScalarType::Float);
  if (bias_.has_value()) {
    auto bias = bias_.value();
    TORCH_CHECK(bias.is_contiguous());
    CHECK_SHAPE(bias, dim);
  }
  TORCH_CHECK(bias_.has_value() == dbias_.has_value(), "bias comes with its gradient");
  weigh<<<1, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), dout.data_ptr<float>(), bias_ ? bias_->data_ptr<float>() : nullptr, dx.data_ptr<float>(),
      dbias_ ? dbias_->data_ptr<float>() : nullptr, batch * dim * seqlen);
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("short_conv_bwd", &short_conv_bwd); }
