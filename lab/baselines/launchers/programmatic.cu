// How kernels compiled at run time are launched. PROGRAMMATIC is 1 for a launch with programmatic
// stream serialization, as SGLang and FlashInfer launch most of them on this architecture, and 0 for a
// plain one.

#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr bool kProgrammatic = PROGRAMMATIC != 0;

template <typename... Parameters>
cudaError_t launch_kernel_with(int shared_bytes, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                               cudaStream_t stream, const Parameters&... parameters) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = kProgrammatic ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, parameters...);
}

template <typename... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream,
                          const Parameters&... parameters) {
  return launch_kernel_with(0, kernel, grid, block, stream, parameters...);
}

// A block for each of `blocks`, but at most as many as the GPU holds at once.
template <typename... Parameters>
cudaError_t launch_resident(void (*kernel)(Parameters...), int64_t blocks, unsigned threads,
                            cudaStream_t stream, const Parameters&... parameters) {
  int device = 0, multiprocessors = 0, resident = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (error == cudaSuccess) {
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, 0);
  }
  if (error != cudaSuccess) return error;
  const int64_t most = static_cast<int64_t>(resident) * multiprocessors;
  return launch_kernel(kernel, dim3(static_cast<unsigned>(blocks < most ? blocks : most)),
                       dim3(threads), stream, parameters...);
}

}  // namespace
