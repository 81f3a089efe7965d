// moe_sum_reduce by the Triton kernel that SGLang launches for up to 32 tokens: 2048 columns of a token
// a block. Its machine code, for a scale of 2.5, stands before this text.

extern "C" cudaError_t moe_sum_reduce(const void* input, void* output, int64_t tokens,
                                      int64_t experts, int64_t hidden, float scale, int dtype,
                                      cudaStream_t stream) {
  if (dtype != 2 || scale != 2.5f || hidden % 16) return cudaErrorNotSupported;
  const int columns = static_cast<int>(hidden), count = static_cast<int>(experts);
  const dim3 grid(static_cast<unsigned>(tokens), static_cast<unsigned>((hidden + 2047) / 2048));
  return launch_kernel(triton_moe_sum_reduce_kernel, grid, dim3(512), stream,
                       const_cast<void*>(input), count * columns, columns, output, columns,
                       static_cast<int>(tokens), count, columns);
}
