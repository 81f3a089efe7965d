// rmsnorm by FlashInfer's own header and host code.

#include <cstdint>
#include <cuda_runtime.h>
#include <flashinfer/norm.cuh>

namespace {

template <typename T>
cudaError_t launch(void* out, const void* input, const void* weight, int64_t tokens, int64_t h,
                   int64_t out_stride, int64_t input_stride, float eps, cudaStream_t stream) {
  constexpr int64_t kSize = 16 / sizeof(T);
  if (h % kSize || out_stride % kSize || input_stride % kSize) return cudaErrorNotSupported;
  return flashinfer::norm::RMSNorm<T>(
      const_cast<T*>(static_cast<const T*>(input)), const_cast<T*>(static_cast<const T*>(weight)),
      static_cast<T*>(out), static_cast<uint32_t>(tokens), static_cast<uint32_t>(h),
      static_cast<uint32_t>(input_stride), static_cast<uint32_t>(out_stride), eps, kProgrammatic,
      stream);
}

}  // namespace

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens,
                               int64_t h, int64_t out_stride, int64_t input_stride, float eps,
                               int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0:
      return launch<float>(out, input, weight, tokens, h, out_stride, input_stride, eps, stream);
    case 1:
      return launch<__half>(out, input, weight, tokens, h, out_stride, input_stride, eps, stream);
    case 2:
      return launch<__nv_bfloat16>(out, input, weight, tokens, h, out_stride, input_stride, eps,
                                   stream);
    default: return cudaErrorInvalidValue;
  }
}
