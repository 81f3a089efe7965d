// merge_state_v2 of a compiled SGLang library, of 2025 or of today, launched as its host code
// launches it: a thread a 16-byte pack, blocks of 128.

namespace {
const char* const kNames[kDtypes] = {
    "_Z24merge_attn_states_kernelIfLj128EEvPT_PfPKS0_PKfS4_S6_jjj",
    "_Z24merge_attn_states_kernelI6__halfLj128EEvPT_PfPKS1_PKfS5_S7_jjj",
    "_Z24merge_attn_states_kernelI13__nv_bfloat16Lj128EEvPT_PfPKS1_PKfS5_S7_jjj"};
}

extern "C" cudaError_t merge_state_v2(const void* v_a, const void* s_a, const void* v_b,
                                      const void* s_b, void* v_merged, void* s_merged, int64_t n,
                                      int64_t h, int64_t d, int dtype, cudaStream_t stream) {
  const void* function;
  if (const cudaError_t error = kernel_for(dtype, kNames, &function)) return error;
  const int64_t packs = n * h * (d / (dtype == 0 ? 4 : 8));
  unsigned sizes[] = {static_cast<unsigned>(n), static_cast<unsigned>(h),
                      static_cast<unsigned>(d)};
  void* arguments[] = {&v_merged, &s_merged, &v_a,      &s_a,     &v_b,
                       &s_b,      &sizes[0], &sizes[1], &sizes[2]};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>((packs + 127) / 128)), dim3(128),
                          arguments, 0, stream);
}
