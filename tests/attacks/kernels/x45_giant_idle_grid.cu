// X45: so many idle blocks that only a sample of them runs, and nothing that was not written is compared.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void idle(float* out) {
  if (blockIdx.x == 123456789u) out[0] = 0.0f;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  idle<<<1u << 20, 1024, 0, stream>>>((float*)out);
  return cudaGetLastError();
}
