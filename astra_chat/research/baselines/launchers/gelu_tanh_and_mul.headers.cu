// gelu_tanh_and_mul by FlashInfer's own header, launched as SGLang's compiled library of 2025 does.

#include <cstdint>
#include <cuda_runtime.h>
#include <flashinfer/activation.cuh>

namespace {

__device__ __forceinline__ float gelu_tanh(const float& value) {
  const float inner = 0.7978845608028654f * (value + 0.044715f * value * value * value);
  return 0.5f * value * (1.0f + tanhf(inner));
}

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  const int64_t vectors = d * static_cast<int64_t>(sizeof(T)) / 16;
  const unsigned threads = static_cast<unsigned>(vectors < 1024 ? vectors : 1024);
  flashinfer::activation::act_and_mul_kernel<T, gelu_tanh>
      <<<static_cast<unsigned>(tokens), threads, 0, stream>>>(
          static_cast<T*>(out), static_cast<const T*>(input), static_cast<int>(d));
  return cudaGetLastError();
}

}  // namespace

extern "C" cudaError_t gelu_tanh_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                         int dtype, cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(out, input, tokens, d, stream);
    case 1: return launch<__half>(out, input, tokens, d, stream);
    case 2: return launch<__nv_bfloat16>(out, input, tokens, d, stream);
    default: return cudaErrorInvalidValue;
  }
}
