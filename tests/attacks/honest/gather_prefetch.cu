// Eight rows a block; the beginning of the next row is prefetched while this one is copied.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
__device__ void prefetch(const T* line) { asm volatile("prefetch.global.L2 [%0];" ::"l"(line)); }

template <typename T, typename I>
__global__ void eight(T* out, const T* table, const I* index, const float* weight, int64_t rows, int64_t width, int64_t stride) {
  const int64_t first = int64_t(blockIdx.x) * 8, last = first + 8 < rows ? first + 8 : rows;
  for (int64_t row = first; row < last; ++row) {
    if (row + 1 < last && index[row + 1] >= 0 && threadIdx.x * 32 < width)
      prefetch(table + index[row + 1] * stride + threadIdx.x * 32);
    const int64_t entry = index[row];
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      float value = 0.0f;
      if (entry >= 0) value = float(table[entry * stride + i]) * (weight ? weight[row] : 1.0f);
      out[row * width + i] = T(value);
    }
  }
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  const unsigned blocks = unsigned((rows + 7) / 8), threads = width >= 128 ? 128 : 32;
  switch (dtype) {
    case 0:
      eight<<<blocks, threads, 0, stream>>>((float*)out, (const float*)table, (const int64_t*)index, (const float*)weight, rows, width, table_stride);
      break;
    case 1:
      eight<<<blocks, threads, 0, stream>>>((__half*)out, (const __half*)table, (const int32_t*)index, (const float*)weight, rows, width, table_stride);
      break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
