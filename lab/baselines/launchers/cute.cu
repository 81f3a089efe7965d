// How a kernel in CuTe DSL is launched: some rows a block, with shared memory that may exceed 48 KiB.

namespace {

template <typename... Arguments>
cudaError_t launch_cute(const CuteKernel& made, int64_t tokens, cudaStream_t stream,
                        Arguments... arguments) {
  if (!made.kernel) return cudaErrorNotSupported;
  const cudaError_t error = cudaFuncSetAttribute(
      made.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, made.shared_bytes);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>((tokens + made.rows - 1) / made.rows));
  return launch_kernel_with(made.shared_bytes, made.kernel, grid, dim3(made.threads), stream,
                            arguments...);
}

}  // namespace
