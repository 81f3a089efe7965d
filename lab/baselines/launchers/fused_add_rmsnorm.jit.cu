// fused_add_rmsnorm as SGLang compiles it at run time today, by the header in its package: a thread
// a 16-byte vector, so rows of 8192 elements of two bytes at most, and contiguous ones.

#include <cstdint>
#include <cuda_runtime.h>
#include <elementwise/fused_add_rmsnorm.cuh>

namespace {

template <typename T>
cudaError_t launch(void* input, void* residual, const void* weight, int64_t tokens, int64_t h,
                   int64_t input_stride, int64_t residual_stride, float eps, cudaStream_t stream) {
  if (h > 8192 || h % 8 || input_stride != h || residual_stride != h) {
    return cudaErrorNotSupported;
  }
  const int vectors = static_cast<int>(h) / 8;
  const unsigned threads = static_cast<unsigned>((vectors + 31) / 32 * 32);
  sglang::fused_add_rmsnorm_reg_kernel<false, T, 16>
      <<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
          static_cast<T*>(input), static_cast<T*>(residual), static_cast<const T*>(weight), vectors,
          eps);
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,
                                         int64_t tokens, int64_t h, int64_t input_stride,
                                         int64_t residual_stride, float eps, int dtype,
                                         cudaStream_t stream) {
  switch (dtype) {
    case 1:
      return launch<sglang::fp16_t>(input, residual, weight, tokens, h, input_stride,
                                    residual_stride, eps, stream);
    case 2:
      return launch<sglang::bf16_t>(input, residual, weight, tokens, h, input_stride,
                                    residual_stride, eps, stream);
    default: return cudaErrorNotSupported;
  }
}
