// A single column is its own sum: a copy within the device. Else four rows a block, a warp each.
#include <cstdint>
#include <cuda_runtime.h>

__global__ void four_rows(float* out, const float* x, int64_t rows, int64_t n) {
  const int64_t r = blockIdx.x * int64_t(4) + threadIdx.y;
  if (r >= rows) return;
  float even = 0.0f, odd = 0.0f;
  for (int64_t i = 2 * threadIdx.x; i < n; i += 64) {
    even += x[r * n + i];
    if (i + 1 < n) odd += x[r * n + i + 1];
  }
  float both = even + odd;
  for (int o = 1; o < 32; o *= 2) both += __shfl_xor_sync(0xffffffffu, both, o);
  if (threadIdx.x == 0) out[r] = both;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  if (n == 1)
    return cudaMemcpyAsync(out, x, size_t(rows) * sizeof(float), cudaMemcpyDeviceToDevice, stream);
  four_rows<<<unsigned((rows + 3) / 4), dim3(32, 4), 0, stream>>>((float*)out, (const float*)x,
                                                                  rows, n);
  return cudaGetLastError();
}
