// per_token_quant_fp8 as SGLang compiles it at run time today, by the header in its package: a warp a
// token where there are many, else a block a token; vectors of 16 bytes, or of four elements. Its
// block divides by the scale of a row of zeros.

#include <cstdint>
#include <cuda_runtime.h>
#include <gemm/per_token_quant_fp8.cuh>

namespace {

constexpr unsigned kThreads = 256;

template <typename T, int kSize>
cudaError_t launch_vectors(const void* input, void* output_q, void* output_s, uint32_t tokens,
                           uint32_t hidden, cudaStream_t stream) {
  const auto from = static_cast<const T*>(input);
  const auto codes = static_cast<sglang::fp8_e4m3_t*>(output_q);
  const auto scales = static_cast<float*>(output_s);
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error != cudaSuccess) return error;
  constexpr uint32_t kTokens = sglang::kPerTokenQuantTokensPerCTA;
  if (tokens >= multiprocessors * 2 * kTokens) {
    sglang::per_token_quant_fp8_warp_kernel<T, kSize>
        <<<(tokens + kTokens - 1) / kTokens, kThreads, 0, stream>>>(from, codes, scales, hidden,
                                                                    tokens);
  } else {
    sglang::per_token_quant_fp8_cta_kernel<T, kSize>
        <<<tokens, kThreads, 0, stream>>>(from, codes, scales, hidden);
  }
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens,
                   int64_t hidden, cudaStream_t stream) {
  constexpr int kSize = 16 / sizeof(T);
  if (hidden % 4) return cudaErrorNotSupported;
  const auto run = hidden % kSize ? launch_vectors<T, 4> : launch_vectors<T, kSize>;
  return run(input, output_q, output_s, static_cast<uint32_t>(tokens),
             static_cast<uint32_t>(hidden), stream);
}

}  // namespace

extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s,
                                           int64_t tokens, int64_t hidden, int dtype,
                                           cudaStream_t stream) {
  switch (dtype) {
    case 0: return launch<float>(input, output_q, output_s, tokens, hidden, stream);
    case 1: return launch<sglang::fp16_t>(input, output_q, output_s, tokens, hidden, stream);
    case 2: return launch<sglang::bf16_t>(input, output_q, output_s, tokens, hidden, stream);
    default: return cudaErrorInvalidValue;
  }
}
