// silu_and_mul of a compiled SGLang library of 2025, launched as its host code launches it: a block
// a token, a thread a 16-byte vector, at most 1024 threads.

namespace {
const char* const kNames[kDtypes] = {
    "_ZN10flashinfer10activation18act_and_mul_kernelIfXadL_Z4siluIfET_RKS3_EEEEvPS3_PS4_i",
    "_ZN10flashinfer10activation18act_and_mul_kernelI6__halfXadL_Z4siluIfET_RKS4_EEEEvPS4_PS5_i",
    "_ZN10flashinfer10activation18act_and_mul_kernelI13__nv_bfloat16XadL_Z4siluIfET_RKS4_EEEEvPS4_"
    "PS5_i"};
}

extern "C" cudaError_t silu_and_mul(void* out, const void* input, int64_t tokens, int64_t d,
                                    int dtype, cudaStream_t stream) {
  const void* function;
  if (const cudaError_t error = kernel_for(dtype, kNames, &function)) return error;
  const int64_t vectors = d / (dtype == 0 ? 4 : 8);
  const unsigned threads = static_cast<unsigned>(vectors < 1024 ? vectors : 1024);
  int columns = static_cast<int>(d);
  void* arguments[] = {&out, &input, &columns};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(tokens)), dim3(threads), arguments,
                          0, stream);
}
