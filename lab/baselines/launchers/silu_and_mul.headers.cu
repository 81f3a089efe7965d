// silu_and_mul by FlashInfer's own header, launched as SGLang's compiled library of 2025 does, or, with
// FLASHINFER_TODAY, as FlashInfer does today.

#include <cstdint>
#include <cuda_runtime.h>
#include <flashinfer/activation.cuh>

namespace {

__device__ __forceinline__ float silu(const float& value) {
  return value / (1.0f + expf(-value));
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  constexpr unsigned kSize = 16 / sizeof(T);
#if FLASHINFER_TODAY
  constexpr unsigned kThreads = 256;
  const auto kernel = flashinfer::activation::act_and_mul_kernel<T, silu, kSize>;
#else
  constexpr unsigned kThreads = 1024;
  const auto kernel = flashinfer::activation::act_and_mul_kernel<T, silu>;
#endif
  if (d % kSize) return cudaErrorNotSupported;
  const unsigned vectors = static_cast<unsigned>(d / kSize);
  return launch_kernel(kernel, dim3(static_cast<unsigned>(tokens)),
                       dim3(vectors < kThreads ? vectors : kThreads), stream, static_cast<T*>(out),
                       static_cast<const T*>(input), static_cast<int>(d));
}

}  // namespace

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
