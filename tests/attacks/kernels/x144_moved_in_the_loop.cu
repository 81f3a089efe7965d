// A programmatic launch that waits in the first pass of its loop and loads behind that, through a
// const __restrict__ pointer: ptxas moves the loads of an unrolled pass before the wait.
#include <cstdint>
#include <cuda_runtime.h>
__global__ void sum_rows(float* __restrict__ out, const float* __restrict__ x, int rows, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) {
    if (i == 0) cudaGridDependencySynchronize();
    sum += x[int64_t(row) * n + i];
  }
  out[row] = sum;
}
extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.blockDim = dim3(128);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  config.gridDim = dim3(unsigned((rows + 127) / 128));
  return cudaLaunchKernelEx(&config, sum_rows, (float*)out, (const float*)x, int(rows), int(n));
}
