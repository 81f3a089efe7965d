// Programmatic dependent launch: waits before it reads.
#include <cstdint>
#include <cuda_runtime.h>

__device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);
  return v;
}

__global__ void sum(float* out, const float* x, int64_t n) {
  asm volatile("griddepcontrol.wait;" ::: "memory");
  float mine = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += 32) mine += x[blockIdx.x * n + i];
  mine = warp_sum(mine);
  if (threadIdx.x == 0) out[blockIdx.x] = mine;
  asm volatile("griddepcontrol.launch_dependents;");
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
  return cudaLaunchKernelEx(&config, sum, (float*)out, (const float*)x, n);
}
