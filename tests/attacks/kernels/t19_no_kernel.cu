// T19: launches no kernel at all.
#include <cstdint>
#include <cuda_runtime.h>

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  return cudaSuccess;
}
