// per_token_quant_fp8 of a compiled SGLang library of 2025, launched as its host code launches it: a
// warp a token where there are many, whose eight warps share one word for their scales, else a block
// a token.

#include <string>

extern "C" cudaError_t per_token_quant_fp8(const void* input, void* output_q, void* output_s,
                                           int64_t tokens, int64_t hidden, int dtype,
                                           cudaStream_t stream) {
  constexpr int kTokens = 8, kThreads = 256;
  const char* const elements[kDtypes] = {"f", "6__half", "13__nv_bfloat16"};
  if (dtype < 0 || dtype >= kDtypes) return cudaErrorInvalidValue;
  if (hidden % 8) return cudaErrorNotSupported;
  int device = 0, multiprocessors = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error != cudaSuccess) return error;
  const bool warps = tokens >= multiprocessors * 2 * kTokens;
  const std::string name =
      std::string(warps ? "_Z26per_token_quant_fp8_kernelI"
                        : "_Z38per_token_quant_fp8_small_batch_kernelI") +
      elements[dtype] + "13__nv_fp8_e4m3" + (warps ? "Li8E" : "") +
      (hidden % 16 ? "Li8EE" : "Li16EE") + "vPKT_PT0_Pfll";
  const void* function;
  error = kernel_named(name.c_str(), &function);
  if (error != cudaSuccess) return error;
  void* arguments[] = {&input, &output_q, &output_s, &hidden, &tokens};
  const int64_t blocks = warps ? (tokens + kTokens - 1) / kTokens : tokens;
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), arguments,
                          0, stream);
}
