// Two programmatic launches: rows are copied as they are, then weighted in place where there are weights.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T, typename I>
__global__ void copy_rows(T* out, const T* table, const I* index, int64_t width, int64_t stride) {
  cudaGridDependencySynchronize();
  const int64_t entry = index[blockIdx.x];
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = entry < 0 ? T(0.0f) : table[entry * stride + i];
  cudaTriggerProgrammaticLaunchCompletion();
}

template <typename T, typename I>
__global__ void weigh(T* out, const I* index, const float* weight, int64_t width) {
  cudaGridDependencySynchronize();
  if (index[blockIdx.x] < 0) return;
  const float factor = weight[blockIdx.x];
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = T(float(out[blockIdx.x * width + i]) * factor);
}

template <typename T, typename I>
static cudaError_t both(void* out, const void* table, const void* index, const void* weight, int64_t rows, int64_t width, int64_t stride, cudaStream_t stream) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(rows)), config.blockDim = dim3(128), config.stream = stream, config.attrs = &early, config.numAttrs = 1;
  cudaError_t error = cudaLaunchKernelEx(&config, copy_rows<T, I>, (T*)out, (const T*)table, (const I*)index, width, stride);
  if (error == cudaSuccess && weight) error = cudaLaunchKernelEx(&config, weigh<T, I>, (T*)out, (const I*)index, (const float*)weight, width);
  return error;
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  return (dtype == 0 ? both<float, int64_t> : both<__half, int32_t>)(out, table, index, weight, rows, width, table_stride, stream);
}
