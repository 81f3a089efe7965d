// fused_add_rmsnorm of a compiled SGLang library of 2025, launched as its host code launches it
// without the programmatic attribute: a block a row, warps on the block's second dimension, the row
// as fp32 in shared memory. Rows of whole 16-byte vectors only: those of the bench cases.

namespace {
const char* const kNames[kDtypes] = {
    "_ZN10flashinfer4norm21FusedAddRMSNormKernelILj4EfEEvPT0_S3_S3_jjjff",
    "_ZN10flashinfer4norm21FusedAddRMSNormKernelILj8E6__halfEEvPT0_S4_S4_jjjff",
    "_ZN10flashinfer4norm21FusedAddRMSNormKernelILj8E13__nv_bfloat16EEvPT0_S4_S4_jjjff"};
}

extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,
                                         int64_t tokens, int64_t h, int64_t input_stride,
                                         int64_t residual_stride, float eps, int dtype,
                                         cudaStream_t stream) {
  const void* function;
  if (const cudaError_t error = kernel_for(dtype, kNames, &function)) return error;
  const int64_t size = dtype == 0 ? 4 : 8;
  if (h % size) return cudaErrorNotSupported;
  const int64_t vectors = h / size;
  const unsigned warps = static_cast<unsigned>(((vectors < 1024 ? vectors : 1024) + 31) / 32);
  const int bytes = static_cast<int>(((warps + 3) / 4 * 4 + h) * sizeof(float));
  cudaError_t error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  unsigned columns = static_cast<unsigned>(h);
  unsigned strides[] = {static_cast<unsigned>(input_stride), static_cast<unsigned>(residual_stride)};
  float weight_bias = 0.0f;
  void* arguments[] = {&input,      &residual,   &weight,      &columns,
                       &strides[0], &strides[1], &weight_bias, &eps};
  return cudaLaunchKernel(function, dim3(static_cast<unsigned>(tokens)), dim3(32, warps), arguments,
                          static_cast<size_t>(bytes), stream);
}
