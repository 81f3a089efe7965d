// A table of device functions in constant memory: the length of a row chooses how it is added.
#include <cuda_runtime.h>
#include <cstdint>

using Adder = float (*)(const float*, int64_t, int);

__device__ float one_by_one(const float* row, int64_t n, int lane) {
  float sum = 0.0f;
  for (int64_t i = lane; i < n; i += 32) sum += row[i];
  return sum;
}

__device__ float two_by_two(const float* row, int64_t n, int lane) {
  float even = 0.0f, odd = 0.0f;
  int64_t i = lane;
  for (; i + 32 < n; i += 64) {
    even += row[i];
    odd += row[i + 32];
  }
  return i < n ? even + odd + row[i] : even + odd;
}

__constant__ Adder kAdders[] = {one_by_one, two_by_two};

__global__ void by_table(float* out, const float* x, int64_t rows, int64_t n, int which) {
  const int64_t row = blockIdx.x * int64_t(blockDim.y) + threadIdx.y;
  if (row >= rows) return;
  float sum = kAdders[which](x + row * n, n, threadIdx.x);
  for (int mask = 1; mask < 32; mask *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (threadIdx.x == 0) out[row] = sum;
}

extern "C" cudaError_t row_sum(void* out, const void* x, int64_t rows, int64_t n, int,
                               cudaStream_t stream) {
  const dim3 block(32, 8);
  const unsigned blocks = static_cast<unsigned>((rows + 7) / 8);
  by_table<<<blocks, block, 0, stream>>>((float*)out, (const float*)x, rows, n, n > 64 ? 1 : 0);
  return cudaGetLastError();
}
