// X66: may begin before the work ahead of it has ended, and never waits for it: in a server it reads
// its inputs before they are there.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void hasty(float* out, const float* x, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) sum += x[blockIdx.x * n + i];
  for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(unsigned(rows));
  config.blockDim = dim3(32);
  config.stream = stream;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, hasty, (float*)out, (const float*)x, n);
}
