// Thirty-two rows a block: their numbers and weights are read into shared memory first, in one go.
#include <cuda_fp16.h>
#include <cstdint>
#include <cuda_runtime.h>

template <typename T>
struct Span {
  T* data;
  int64_t step;
  __device__ T* row(int64_t r) const { return data + r * step; }
};

template <typename T, typename I>
__global__ void thirty_two(Span<T> out, Span<const T> table, const I* index, const float* weight, int64_t rows, int64_t width) {
  __shared__ int64_t entries[32];
  __shared__ float factors[32];
  const int64_t first = blockIdx.x * int64_t(32);
  const int count = int(rows - first < 32 ? rows - first : 32);
  if (threadIdx.x < count) {
    entries[threadIdx.x] = index[first + threadIdx.x];
    factors[threadIdx.x] = weight ? weight[first + threadIdx.x] : 1.0f;
  }
  __syncthreads();
  for (int64_t place = threadIdx.x; place < count * width; place += blockDim.x) {
    const int r = int(place / width);
    const int64_t i = place % width, entry = entries[r];
    out.row(first + r)[i] = entry < 0 ? T(0.0f) : T(float(table.row(entry)[i]) * factors[r]);
  }
}

extern "C" cudaError_t gather(void* out, const void* table, const void* index, const void* weight,
                              int64_t rows, int64_t width, int64_t entries, int64_t table_stride,
                              int dtype, int i_dtype, cudaStream_t stream) {
  const unsigned blocks = unsigned((rows + 31) / 32);
  if (dtype == 0)
    thirty_two<float, int64_t><<<blocks, 192, 0, stream>>>({(float*)out, width}, {(const float*)table, table_stride}, (const int64_t*)index, (const float*)weight, rows, width);
  else
    thirty_two<__half, int><<<blocks, 192, 0, stream>>>({(__half*)out, width}, {(const __half*)table, table_stride}, (const int*)index, (const float*)weight, rows, width);
  return cudaGetLastError();
}
