// A warp a row: lane 0 reads the number and the weight, and a shuffle tells the others.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <class Number, class Place>
__global__ void __launch_bounds__(256, 4)
    warps(Number* __restrict__ out, const Number* __restrict__ table, const Place* __restrict__ index,
          const float* __restrict__ weight, int64_t rows, int64_t width, int64_t stride) {
  const unsigned lane = threadIdx.x % 32;
  const int64_t row = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  if (row >= rows) return;
  long long entry = 0;
  float factor = 1.0f;
  if (lane == 0) {
    entry = index[row];
    if (weight != nullptr) factor = __ldg(weight + row);
  }
  entry = __shfl_sync(0xffffffffu, entry, 0);
  factor = __shfl_sync(0xffffffffu, factor, 0);
  Number* to = out + row * width;
  if (entry == -1)
    for (int64_t i = lane; i < width; i += 32) to[i] = Number(0.0f);
  else
    for (int64_t i = lane; i < width; i += 32) to[i] = Number(factor * float(table[entry * stride + i]));
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  const dim3 grid(unsigned((rows + 7) / 8));
  if (i_dtype == 8)
    warps<<<grid, 256, 0, stream>>>((float*)out, (const float*)table, (const long long*)index, (const float*)weight, rows, width, table_stride);
  else
    warps<<<grid, 256, 0, stream>>>((__half*)out, (const __half*)table, (const int*)index, (const float*)weight, rows, width, table_stride);
  return cudaGetLastError();
}
