// A grid of two dimensions: columns in tiles along x, rows along y, whose extent is limited, so that rows loop.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T, typename I>
__global__ void tiles(T* out, const T* table, const I* index, const float* weight, int rows, int width, int64_t stride) {
  const int column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= width) return;
  for (int row = blockIdx.y * blockDim.y + threadIdx.y; row < rows; row += gridDim.y * blockDim.y) {
    const I entry = index[row];
    float value = 0.0f;
    if (entry != -1) {
      value = table[entry * stride + column];
      if (weight) value *= weight[row];
    }
    out[int64_t(row) * width + column] = value;
  }
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  const dim3 block(32, 4), grid(unsigned((width + 31) / 32), unsigned(rows < 4096 ? (rows + 3) / 4 : 1024));
  if (dtype == 0)
    tiles<float, int64_t><<<grid, block, 0, stream>>>((float*)out, (const float*)table, (const int64_t*)index, (const float*)weight, int(rows), int(width), table_stride);
  else
    tiles<__half, int32_t><<<grid, block, 0, stream>>>((__half*)out, (const __half*)table, (const int32_t*)index, (const float*)weight, int(rows), int(width), table_stride);
  return cudaGetLastError();
}
