// rmsnorm as SGLang compiles it at run time today, by the header in its package: a kernel for each
// length of a row, a warp a row up to 256 elements, else a block.

#include <elementwise/rmsnorm.cuh>

namespace {

template <typename T, int64_t kDim>
cudaError_t launch_row(const sglang::RMSNormParams& params, cudaStream_t stream) {
  if constexpr (kDim <= 256) {
    return launch_resident(sglang::rmsnorm_warp<kDim, kProgrammatic, T>, params.num_tokens, 32,
                           stream, params);
  } else if constexpr (kDim == 512 || (kDim >= 2048 && kDim % 512 == 0)) {
    return launch_kernel(sglang::rmsnorm_cta_double<kDim, kProgrammatic, T>,
                         dim3(params.num_tokens), dim3(kDim / 16), stream, params);
  } else {
    return launch_resident(sglang::rmsnorm_cta<kDim, kProgrammatic, T>, params.num_tokens,
                           kDim / 256 * 32, stream, params);
  }
}

template <typename T>
cudaError_t launch_dtype(const sglang::RMSNormParams& params, int64_t h, cudaStream_t stream) {
  switch (h) {
    case 64: return launch_row<T, 64>(params, stream);
    case 128: return launch_row<T, 128>(params, stream);
    case 256: return launch_row<T, 256>(params, stream);
    case 2048: return launch_row<T, 2048>(params, stream);
    case 4096: return launch_row<T, 4096>(params, stream);
    case 5120: return launch_row<T, 5120>(params, stream);
    case 7168: return launch_row<T, 7168>(params, stream);
    case 8192: return launch_row<T, 8192>(params, stream);
    default: return cudaErrorNotSupported;
  }
}

}  // namespace

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens,
                               int64_t h, int64_t out_stride, int64_t input_stride, float eps,
                               int dtype, cudaStream_t stream) {
  sglang::RMSNormParams params{};
  params.input = input;
  params.weight = weight;
  params.output = out;
  params.input_stride = input_stride;
  params.output_stride = out_stride;
  params.num_tokens = static_cast<uint32_t>(tokens);
  params.eps = eps;
  switch (dtype) {
    case 1: return launch_dtype<sglang::fp16_t>(params, h, stream);
    case 2: return launch_dtype<sglang::bf16_t>(params, h, stream);
    default: return cudaErrorNotSupported;
  }
}
