// silu_and_mul_group_quant_fp8 as SGLang compiles it at run time today, by the header in its
// package: threads of a flat grid share groups.

#include <gemm/per_token_group_quant.cuh>

namespace {

constexpr int64_t kGroup = 128;

template <typename T, bool kRowMajor>
cudaError_t launch(const void* input, void* output_q, void* output_s, int64_t tokens, int64_t columns,
                   cudaStream_t stream) {
  using Trait = sglang::QuantTrait<T, sglang::fp8_e4m3_t, kGroup, false, kRowMajor, true, true, false>;
  const uint32_t groups = static_cast<uint32_t>(columns / kGroup);
  sglang::QuantKernelParams params{};
  params.input.ptr = const_cast<void*>(input);
  params.input.token_stride = 2 * columns;
  params.output.ptr = output_q;
  params.output.token_stride = columns;
  params.scale.base = output_s;
  params.scale.token_stride = kRowMajor ? groups : 1;
  params.scale.group_stride = kRowMajor ? 1 : static_cast<uint32_t>((tokens + 3) / 4 * 4);
  params.scale.num_groups = groups;
  params.num_tokens = static_cast<uint32_t>(tokens);
  params.hidden_size = static_cast<uint32_t>(columns);
  const int64_t threads = tokens * groups * Trait::kNumLanes;
  const unsigned blocks =
      static_cast<unsigned>((threads + Trait::kBlockSize - 1) / Trait::kBlockSize);
  return launch_kernel(sglang::per_token_group_quant_flat_kernel<Trait, kProgrammatic, false>,
                       dim3(blocks), dim3(Trait::kBlockSize), stream, params);
}

}  // namespace

extern "C" cudaError_t silu_and_mul_group_quant_fp8(const void* input, void* output_q,
                                                    void* output_s, void* activated, int64_t tokens,
                                                    int64_t d, int64_t column_major, int dtype,
                                                    cudaStream_t stream) {
  if (dtype != 2) return cudaErrorNotSupported;
  const auto run = column_major ? launch<sglang::bf16_t, false> : launch<sglang::bf16_t, true>;
  return run(input, output_q, output_s, tokens, d, stream);
}
