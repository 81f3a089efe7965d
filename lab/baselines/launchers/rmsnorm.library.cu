// rmsnorm of a compiled SGLang library of 2025, launched as its host code launches it. Rows of whole
// 16-byte vectors only: those of the bench cases.

namespace {
const char* const kNames[kDtypes] = {
    "_ZN10flashinfer4norm13RMSNormKernelILj4EfEEvPT0_S3_S3_jjjff",
    "_ZN10flashinfer4norm13RMSNormKernelILj8E6__halfEEvPT0_S4_S4_jjjff",
    "_ZN10flashinfer4norm13RMSNormKernelILj8E13__nv_bfloat16EEvPT0_S4_S4_jjjff"};
}

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens,
                               int64_t h, int64_t out_stride, int64_t input_stride, float eps,
                               int dtype, cudaStream_t stream) {
  const void* function;
  if (const cudaError_t error = kernel_for(dtype, kNames, &function)) return error;
  const int64_t size = dtype == 0 ? 4 : 8;
  if (h % size || out_stride % size || input_stride % size) return cudaErrorNotSupported;
  const int64_t vectors = h / size;
  const unsigned warps = static_cast<unsigned>(((vectors < 1024 ? vectors : 1024) + 31) / 32);
  unsigned sizes[] = {static_cast<unsigned>(h), static_cast<unsigned>(input_stride),
                      static_cast<unsigned>(out_stride)};
  float bias = 0.0f;
  void* arguments[] = {&input, &weight, &out, &sizes[0], &sizes[1], &sizes[2], &bias, &eps};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(tokens)), dim3(32, warps), arguments,
                          warps * sizeof(float), stream);
}
