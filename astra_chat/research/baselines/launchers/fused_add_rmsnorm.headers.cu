// fused_add_rmsnorm by FlashInfer's own header, launched as its host code does, but without launch
// attributes. Rows of whole 16-byte vectors only: those of the bench cases.

#include <cstdint>
#include <cuda_runtime.h>
#include <flashinfer/norm.cuh>

namespace {

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   int64_t input_stride, int64_t residual_stride, float eps, cudaStream_t stream) {
  constexpr unsigned kSize = 16 / sizeof(T);
  if (h % kSize) return cudaErrorNotSupported;
  const int64_t vectors = h / kSize;
  const unsigned warps = static_cast<unsigned>(((vectors < 1024 ? vectors : 1024) + 31) / 32);
  const int bytes = static_cast<int>(((warps + 3) / 4 * 4 + h) * sizeof(float));
  const auto kernel = flashinfer::norm::FusedAddRMSNormKernel<kSize, T>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  kernel<<<static_cast<unsigned>(tokens), dim3(32, warps), bytes, stream>>>(
      static_cast<T*>(input), static_cast<T*>(residual),
      const_cast<T*>(static_cast<const T*>(weight)), static_cast<uint32_t>(h),
      static_cast<uint32_t>(input_stride), static_cast<uint32_t>(residual_stride), 0.0f, eps);
  return cudaGetLastError();
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
