// rmsnorm by FlashInfer's kernels in CuTe DSL, one for each length of a row; rows are contiguous. Their
// machine code stands before this text.

extern "C" cudaError_t rmsnorm(void* out, const void* input, const void* weight, int64_t tokens,
                               int64_t h, int64_t out_stride, int64_t input_stride, float eps,
                               int dtype, cudaStream_t stream) {
  if (out_stride != h || input_stride != h) return cudaErrorNotSupported;
  return launch_cute(cute_kernel(dtype, h), tokens, stream, const_cast<void*>(input),
                     const_cast<void*>(weight), out, tokens, eps);
}
