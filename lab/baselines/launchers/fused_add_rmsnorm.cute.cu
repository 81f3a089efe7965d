// fused_add_rmsnorm by FlashInfer's kernels in CuTe DSL, one for each length of a row; rows are
// contiguous. Their machine code stands before this text.

extern "C" cudaError_t fused_add_rmsnorm(void* input, void* residual, const void* weight,
                                         int64_t tokens, int64_t h, int64_t input_stride,
                                         int64_t residual_stride, float eps, int dtype,
                                         cudaStream_t stream) {
  if (input_stride != h || residual_stride != h) return cudaErrorNotSupported;
  return launch_cute(cute_kernel(dtype, h), tokens, stream, input, residual,
                     const_cast<void*>(weight), tokens, eps);
}
