// fused_add_rmsnorm by FlashInfer's own header and host code.

#include <cstdint>
#include <cuda_runtime.h>
#include <flashinfer/norm.cuh>

namespace {

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   int64_t input_stride, int64_t residual_stride, float eps, cudaStream_t stream) {
  constexpr int64_t kSize = 16 / sizeof(T);
  if (h % kSize || input_stride % kSize || residual_stride % kSize) return cudaErrorNotSupported;
  return flashinfer::norm::FusedAddRMSNorm<T>(
      static_cast<T*>(input), static_cast<T*>(residual),
      const_cast<T*>(static_cast<const T*>(weight)), static_cast<uint32_t>(tokens),
      static_cast<uint32_t>(h), static_cast<uint32_t>(input_stride),
      static_cast<uint32_t>(residual_stride), eps, kProgrammatic, stream);
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,
                                         int64_t tokens, int64_t h, int64_t input_stride,
                                         int64_t residual_stride, float eps, int dtype,
                                         cudaStream_t stream) {
  switch (dtype) {
    case 0:
      return launch<float>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                           stream);
    case 1:
      return launch<__half>(input, residual, weight, tokens, h, input_stride, residual_stride, eps,
                            stream);
    case 2:
      return launch<__nv_bfloat16>(input, residual, weight, tokens, h, input_stride,
                                   residual_stride, eps, stream);
    default: return cudaErrorInvalidValue;
  }
}
