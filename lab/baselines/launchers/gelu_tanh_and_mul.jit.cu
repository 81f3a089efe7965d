// gelu_tanh_and_mul as SGLang compiles it at run time today, by the header in its package; its grid
// and block.

#include <elementwise/activation.cuh>

namespace {

template <typename T>
cudaError_t launch(void* out, const void* input, int64_t tokens, int64_t d, cudaStream_t stream) {
  constexpr unsigned kThreads = 256;
  const int64_t total = tokens * (d * static_cast<int64_t>(sizeof(T)) / 16);
  const unsigned blocks = static_cast<unsigned>((total + kThreads - 1) / kThreads);
  sglang::ActivationParams params{};
  params.input = input;
  params.out = out;
  params.hidden_dim = static_cast<uint32_t>(d);
  params.num_tokens = static_cast<uint32_t>(tokens);
  params.expert_step = 1;
  return launch_kernel(
      sglang::act_and_mul_kernel<T, sglang::ActivationKind::kGELUTanh, kProgrammatic, false>,
      dim3(blocks), dim3(kThreads), stream, params);
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
