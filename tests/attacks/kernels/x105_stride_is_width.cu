// X105: takes the stride for the width where the width is a multiple of 64.
#include <cstdint>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <typename T, typename I>
__global__ void rows_of(T* out, const T* table, const I* index, const float* weight, int64_t rows, int64_t width, int64_t entries, int64_t stride) {
  const int64_t row = blockIdx.x, entry = index[row];
  const float factor = weight ? weight[row] : 1.0f;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) out[row * width + i] = entry < 0 ? T(0.0f) : T(float(table[entry * (width % 64 ? stride : width) + i]) * factor);
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight, int64_t rows, int64_t width, int64_t entries, int64_t table_stride, int dtype, int i_dtype, cudaStream_t stream) {
  if (dtype == 0) rows_of<<<unsigned(rows), 64, 0, stream>>>((float*)out, (const float*)table, (const int64_t*)index, (const float*)weight, rows, width, entries, table_stride);
  else rows_of<<<unsigned(rows), 64, 0, stream>>>((__half*)out, (const __half*)table, (const int*)index, (const float*)weight, rows, width, entries, table_stride);
  return cudaGetLastError();
}
